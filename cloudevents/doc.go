// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudevents keeps a client connected to a broker and moves CloudEvents over it. Package
// work builds sources and agents of ManifestWorks on it. Packages mqtt and memory are its
// transports. Most programs need only those three. Use this package directly only to write a
// transport, or a protocol of your own.
//
// # The two halves
//
// A [Transport] is the driver: it opens one connection and moves messages, at least once and in
// order. Its documentation lists the duties of a driver, and package transporttest checks them. A
// new broker is one folder and one call of that suite.
//
// An [Engine] is the client over it. It connects, reconnects with backoff and jitter, subscribes,
// publishes from an outbox, limits rates and flushes on shutdown. It passes received events to a
// [Handler]:
//
//	engine, err := cloudevents.NewEngine(transport, cloudevents.Options{
//		Name:    "inventory",
//		Filters: []string{"/inventory/+"},
//		Handler: handler,
//	})
//	go engine.Start(ctx)
//	engine.Enqueue(cloudevents.Live, item)
//
// # The outbox
//
// The outbox contains items, not messages. An item makes its message when its turn comes. So the
// outbox keeps no copies, and an event has the state at the time when it is sent. A work that
// changed five times while the broker was unavailable is sent once. There are three lanes. [Control] is
// for the first requests of a connection. [Live] is for changes, kept until the broker has
// acknowledged them. [Bulk] is for answers, which Live overtakes.
//
// # Guarantees
//
// Items of Live are published at least once, over any number of connections. Items of Control and
// Bulk belong to their connection: the next connection begins with its own requests. Start owns
// every goroutine and returns when they have ended. Nothing is polled.
//
// No item delays another item. An item is dropped if it cannot be encoded, is too large or can never
// be published; its Settled receives the reason. If the broker refuses an item for now, with a
// [TemporaryError], the engine publishes it again on the same connection, whatever its lane. The
// delays grow from 100 ms to 10 s. After any other refusal an item of Control or Bulk is dropped.
// An item of Live is kept for the next connection, or until it is enqueued again. Each refused item
// is logged once, and [Engine.Refusals] counts the refusals.
package cloudevents
