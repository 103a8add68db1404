// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine keeps a client connected to a broker over a [cloudevents.Transport]. An [Engine]
// connects, reconnects with backoff and jitter, subscribes, publishes from an outbox, limits rates
// and flushes on shutdown. It passes received events to a [Handler]. Package work builds sources and
// agents on it.
//
// # The outbox
//
// The outbox contains items, not messages. An item makes its message when its turn comes, with the
// state of that time. A work that changed five times while the broker was unavailable is sent once.
// There are three lanes: [LaneControl] for the first requests of a connection, [LaneLive] for
// changes, and [LaneBulk] for answers.
//
// # Guarantees
//
// Items of LaneLive are published at least once, over any number of connections. Items of
// LaneControl and LaneBulk belong to their connection: the next connection begins with its own
// requests. Start owns every goroutine and returns when they have ended. Nothing is polled.
//
// No item delays another item. An item that cannot be encoded or is too large is dropped. If the
// broker refuses an item for now, with a [cloudevents.TemporaryError], the engine publishes it again
// on the same connection, with delays that grow from 100 ms to 10 s. After any other refusal an item
// of LaneControl or LaneBulk is dropped, and an item of LaneLive is kept for the next connection, or
// until it is enqueued again. Each refused item is logged once, and the metrics count every refusal.
package engine
