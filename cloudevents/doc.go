// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudevents keeps a client connected to a broker and moves CloudEvents over it. Package work builds
// sources and agents of ManifestWorks on it; packages mqtt and memory are the brokers it can speak to. Most
// programs need only those three: this package is for who writes a transport, or a protocol of their own.
//
// # The two halves
//
// A [Transport] is the driver: it opens one connection and moves messages, at least once and in order. What
// every driver must do is in its documentation and checked by package transporttest, so a new broker is one
// folder and one call of that suite.
//
// An [Engine] is the client over it. It connects, reconnects with backoff and jitter, subscribes, publishes
// from an outbox, limits rates, flushes on shutdown, and tells a [Handler] what arrived:
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
// What is published are not messages but items that make their message when their turn comes. So an outbox
// holds no copies, a work that changed five times while the broker was away goes out once, and an event says
// what is true when it is sent. There are three lanes: [Control] for the requests that a connection begins
// with, [Live] for news, kept until the broker has acknowledged it, and [Bulk] for answers, which news
// overtakes.
//
// # Guarantees
//
// Items of Live are published at least once, over any number of connections. Those of Control and Bulk belong
// to their connection: the next one begins with requests of its own. Start owns every goroutine and returns
// when they have ended. Nothing is polled.
//
// No item holds up another. One that cannot be encoded, is too large or cannot be published at all is given up, and
// its Settled told. One that the broker refuses for now, with a [TemporaryError], is published again on the same
// connection, after 100 ms at first and every 10 s at last, whatever its lane. One that it refuses for another reason
// is given up in Control and Bulk, and in Live kept for the next connection, or for the next time it is enqueued.
// Each is logged once, and [Engine.Refusals] counts them.
package cloudevents
