// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the hub's HTTP API.
//
//	GET    /api/v1/KIND                      list the documents of a kind
//	GET    /api/v1/KIND/NAME                 return a document
//	PUT    /api/v1/KIND/NAME                 create or replace a document, in YAML or JSON
//	DELETE /api/v1/KIND/NAME                 delete a document
//	POST   /api/v1/apply                     create or replace documents, all or none of them, in YAML or JSON
//	POST   /api/v1/diff                      return what apply would change, and change nothing
//	GET    /api/v1/status                    the links of the hub, and all applications and clusters
//	GET    /api/v1/applications/NAME/status  one with its clusters and revisions; with ?wait=30s, after it is in sync
//	GET    /api/v1/applications/NAME/diff    the fields in which two revisions differ: ?from=1&to=2
//	GET    /api/v1/clusters/NAME/status      one with its applications, works and objects
//	GET    /api/v1/history                   the revisions of all applications, and actions, the newest first
//	POST   /api/v1/applications/NAME/rollback    roll back to the previous revision, or to {"revision": 3}; hold it
//	DELETE /api/v1/applications/NAME/rollback    end the hold: the document is rolled out again
//	POST   /api/v1/applications/NAME/approve     open a gate of its rollout: see below
//	POST   /api/v1/applications/NAME/pause       start no further cluster of its rollout
//	POST   /api/v1/applications/NAME/resume      end a pause, or start a failed or aborted rollout again
//	POST   /api/v1/applications/NAME/abort       end its rollout; with rollbackOnFailure it is rolled back
//	POST   /api/v1/clusters/NAME/forget      stop waiting for a removed cluster that will not return
//	POST   /api/v1/clusters/NAME/revoke      refuse the certificates of a cluster, and end its connections
//	POST   /api/v1/tokens                    create a token that lets an agent join
//	GET    /api/v1/tokens                    list the tokens, without their secrets
//	DELETE /api/v1/tokens/ID                 delete a token
//	POST   /api/v1/backup                    return a backup of the store, for hub restore: it has Secrets
//	POST   /api/v1/complete                  declare that the documents of all applications exist
//
// KIND is clusters, applications, placements, resourceinterpreterwebhookconfigurations or
// resourceexploringwebhookconfigurations. The body of approve is {"group": "canary", "gate": "After"};
// the other gate is "Before". The body of a new token is {"cluster": "c1", "lifetime": "1h", "uses": 1}.
//
// A GET with ?watch=30s returns an ETag. With that ETag in If-None-Match it returns when the response
// differs from the earlier one, or with the status 304 after that time.
//
// Package status has the types of the responses, and the words for sync and health. An application is
// Synced when the agents of all its clusters have reported that they applied the whole wanted
// revision, after a rollback that of the rollback. ?wait returns then, or when it cannot be: without
// placements, or when it was removed. It returns at the latest after that time, and does not wait
// until the application is Healthy.
//
// A rollback restores an earlier document, or earlier values that templates have read. It does not
// change the clusters of an application, which follow the current placements. So a rollback skips a
// revision that differs only in its clusters. If such a revision is requested by its number, the
// response has a "note".
//
// An agent with works sends a message at least once a minute; lastHeard is the time of the last one,
// to the minute. An agent without messages for three minutes is Silent, and the statuses on its
// cluster are Unknown.
//
// The status of all has "unclaimed": works with objects that no application has, because the hub's
// state.db was lost or is outdated. They stay unchanged until it is restored, or their documents
// are put again: applications then adopt the existing objects.
//
// A hub that started without documents in its store, new or lost, deletes no unknown work on
// clusters until complete is requested. The same applies to a hub that was started with
// --leave-dir. There, applications without a document or a placement also stay unchanged.
//
// Responses are JSON. An error is {"error": "...", "field": "spec.parts[0].name"}, with the status
//
//	400  a document that cannot be decoded, or is invalid in itself
//	401  a change without a login, or a wrong one; on other than loopback addresses a read, too
//	403  a user without the right; a change that a browser requests for a page of another origin
//	404  no such document, kind, revision or path, or a cluster to forget that is not awaited
//	405  a method that the path does not have, or a change while documents come from a folder; Allow has the methods
//	408  a body that takes more than 30 s to arrive
//	409  a conflict: a hub without --join-listen for tokens, no earlier revision, a cluster that was not removed,
//	     complete without documents
//	413  a body over 1 MiB
//	421  a request for a host other than localhost and those of --allowed-host
//	422  a valid document that refers to a missing one, is referred to while it is deleted, does not render, or
//	     renders objects that no cluster accepts; a rollback, or its end, with an object of another application
//	500  an unexpected error, for example of the store
//	503  a ?wait or ?watch while 100 requests wait, or a body while other bodies use all memory for bodies: try again
//
// After an error nothing has changed. A change that has started is completed also if the client
// disconnects. If two clients put the same document, the last one is used.
//
// Package login authenticates users: editors may change everything, viewers only read. The API
// rejects requests that browsers send for pages of other origins, and requests for hosts that
// --allowed-host does not list: a page of another site may have a name that resolves to the hub.
// Requests of slow clients end: see package internal/httpserve.
package httpapi
