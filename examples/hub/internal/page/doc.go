// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the hub's one web page: what became of the input, the clusters, the applications and the works, live.
//
//	status, err := page.New(hub, page.Options{Title: "My hub"}) // hub has a method State() page.State
//	hub.OnChange = status.Changed                               // says that something is new; never blocks
//	server := &http.Server{Handler: status}
//	server.RegisterOnShutdown(status.Close) // or Shutdown waits for browsers, which never hang up
//
// The server renders everything, so the page is whole without JavaScript. With it, the page opens a stream of
// server-sent events and replaces the rows that changed.
//
// # Guarantees
//
//   - Nothing is done while nobody looks. Otherwise the state is asked for after a change, at most once per
//     [Options].Interval, however many browsers and changes there are. Only rows whose content changed are rendered and sent.
//   - Nothing queues up for a slow browser: it gets the rows as they are when it is ready for them, and is
//     disconnected when it takes nothing for [Options].WriteTimeout. A browser that was away gets what changed
//     meanwhile, or everything after a restart of the hub.
//   - Whatever names and messages contain is shown as text, at most [MaxText] bytes of each. The Content-Security-Policy
//     allows what this package serves and nothing else; no resource is fetched from elsewhere.
//
// The page only shows. It has no login: serve it where only those can reach it who may see the state.
package page
