// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the hub's HTTP API. [Routes] lists the requests. The OpenAPI document, at /api/openapi.json and in
// examples/hub/schema, is generated from it.
//
// A kind is clusters, applications, placements, resourceinterpreterwebhookconfigurations or
// resourceexploringwebhookconfigurations. The body of approve is {"group": "canary", "gate": "After"};
// the other gate is "Before". The body of a new token is {"cluster": "c1", "lifetime": "1h", "uses": 1}.
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
//	403  a change that a browser requests for a page of another origin
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
//	503  a ?wait while 100 requests wait, or a body while other bodies use all memory for bodies: try again
//
// After an error nothing has changed. A change that has started is completed also if the client
// disconnects. If two clients put the same document, the last one is used.
//
// The API has no login: everyone who can reach its address may use it. By default only this machine
// can. The API rejects requests that browsers send for pages of other origins, and requests for
// hosts that --allowed-host does not list: a page of another site may have a name that resolves to
// the hub. Requests of slow clients end: see package internal/httpserve.
package httpapi
