// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the web page of the hub: the state of the input, the clusters, the applications
// and the works, with live updates.
//
// The server renders everything, so the page is complete without JavaScript. With JavaScript, the
// page opens a stream of server-sent events and replaces changed rows.
//
// # Guarantees
//
//   - Without browsers the page does no work. Otherwise it reads the state after a change, at most
//     once per [Options].Interval, for any number of browsers and changes. Only rows with changed
//     content are rendered and sent.
//   - A slow browser has no queue: it gets the latest rows when it is ready for them, and is
//     disconnected when it accepts no data for [Options].WriteTimeout. A browser that reconnects
//     gets the changes of the meantime, or the whole page after a restart of the hub.
//   - All names and messages are shown as text, at most [MaxText] bytes of each. The
//     Content-Security-Policy allows only the files of this package; no resource is loaded from
//     other servers.
//
// The page is read-only. It has no login: restrict access to users who may see the state.
package page
