// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the hub's HTTP API.
//
//	GET    /api/v1/KIND                      all documents of a kind: clusters, applications, placements,
//	                                         resourceinterpreterwebhookconfigurations, resourceexploringwebhookconfigurations
//	GET    /api/v1/KIND/NAME                 one of them
//	PUT    /api/v1/KIND/NAME                 create or replace one: a document in YAML or JSON
//	DELETE /api/v1/KIND/NAME                 take one away
//	GET    /api/v1/status                    how all applications and clusters are
//	GET    /api/v1/applications/NAME/status  how one is, on each cluster; with ?wait=30s, once it is deployed
//	POST   /api/v1/applications/NAME/rollback    back to the revision before, or with {"revision": 3} to another; it stays there
//	DELETE /api/v1/applications/NAME/rollback    and on with the document
//	POST   /api/v1/applications/NAME/approve     open a gate of its rollout: {"group": "canary", "gate": "After"}, or "Before"
//	POST   /api/v1/applications/NAME/pause       let its rollout begin no further cluster
//	POST   /api/v1/applications/NAME/resume      end a pause, or begin a failed or aborted rollout again
//	POST   /api/v1/applications/NAME/abort       end its rollout; with rollbackOnFailure it is rolled back
//	POST   /api/v1/clusters/NAME/forget      give up on a removed cluster that will not come back
//	POST   /api/v1/complete                  say that the documents of all applications are there
//
// An application is Deployed, or after a rollback Rolled back, when the agents of all its clusters have said that they have applied all of the wanted revision.
// Until then it is Rolling, with the clusters that it waits for, or Failed, with what an agent could not apply, in its words; it is tried again by itself.
// It is Degraded when all is applied, and an agent says that something has not been as it should be for long. ?wait returns when it is neither Rolling
// nor Failed any more, and at the latest after that time.
//
// A rollback goes back to another document, or to other values that templates have read. Where an application runs follows the placements, before and after: a
// revision that differs by its clusters only is none to go back to, and where it is asked for by its number the answer has a "note" that says so.
//
// What is known of clusters is what their agents have reported last. An agent that has works is heard of once a minute at least; heard says when that was, to the minute, and
// one that was not heard of for three is Silent: it may be away, or the broker between.
//
// The status of all has "unclaimed": works with objects that no application has, because the hub's state.db was lost or is of an earlier day. They stay as they
// are until it is restored, or the documents come back that had them: applications take over what is there.
//
// A hub that began without documents in its store, be that new or lost, deletes no work on clusters that it does not know until complete is said. So does one that was
// started with --leave-dir, and there applications that have no document yet, or are not placed yet, stay as they are, too.
//
// Answers are JSON. An error is {"error": "...", "field": "spec.parts[0].name"}, with the status
//
//	400  a document that cannot be decoded, or is wrong by itself
//	403  a change that a browser asks for in the name of a page of another origin
//	404  no such document, kind, revision or path, or a cluster to forget that nobody waits for
//	405  a method that the path does not have, or a change where documents come from a folder; Allow has the methods
//	408  a body that takes more than 30 s to come
//	409  what cannot be done now: no earlier revision, a cluster that was not removed, nothing that is complete
//	413  a body over 1 MiB
//	421  a request for a host other than localhost and those of --allowed-host
//	422  a document that is right by itself, but names another one that there is not, is named by one, does not render, or
//	     renders objects that no cluster takes; a rollback, or the end of one, that needs an object which another application has by now
//	503  a ?wait while 100 requests wait
//
// After an error everything is as it was. A change that has begun is made also where who asked for it hangs up. Of two who put the same document
// the last one counts.
//
// The API has no login: everyone who can reach its address may use it. By default only this machine can. The API rejects
// requests that browsers send for pages of other origins, and requests for hosts that --allowed-host does not list: a page of
// another site may have a name that resolves to the hub. Requests of slow clients end: see package internal/httpserve.
package httpapi
