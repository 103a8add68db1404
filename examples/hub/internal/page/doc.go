// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the web page of the hub: an overview, the applications, the clusters, the history,
// and a page for each application, each cluster, and each application on a cluster.
//
// The server renders everything, so the pages are complete without JavaScript. With JavaScript, a
// visible page requests itself every two seconds, with the ETag of its content, and replaces the
// elements that differ.
//
// # Guarantees
//
//   - Without browsers the page does no work. Otherwise it reads the state after a change, or when it
//     is 5 s old, for any number of browsers. A large state is read less often: reading takes at most
//     a tenth of the time.
//   - Lists have pages of 50 rows, so a page is small for any number of clusters and applications.
//   - All names and messages are shown as text, at most [MaxText] bytes of each. The
//     Content-Security-Policy allows only the files of this package; no resource is loaded from
//     other servers.
//
// Forms of the page of an application open a gate, pause, resume or abort a rollout, and start and
// end a rollback, after its differences were shown. Only requests that [Options].MayEdit accepts may
// use them, and no request of a page of another origin. The page has no login of its own: restrict
// access to users who may see the state.
package page
