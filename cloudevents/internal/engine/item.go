// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/spokewire/sdk-go/cloudevents"

// Lane is the queue that an [Item] waits in.
type Lane int

const (
	// LaneControl is for requests and other items that must be sent first. It is emptied when the
	// connection ends: the next connection begins with its own requests.
	LaneControl Lane = iota
	// LaneLive is for changes of works. An item is kept until the broker has acknowledged it, over any
	// number of connections. It waits there at most once.
	LaneLive
	// LaneBulk is for answers to requests. Queue long answers piece by piece: an item that enqueues
	// the next one when its turn comes shares the lane with others. LaneLive overtakes LaneBulk, also
	// on the way. LaneBulk is emptied when the connection ends.
	LaneBulk

	lanes = int(LaneBulk) + 1
)

// Item is the source of a message to publish. It is encoded when its turn comes, with the state of
// that time. Items are compared by identity, so implementations are pointers.
type Item interface {
	// Message returns the message to publish. A message without an event means that there is
	// nothing to send. Message is called from one goroutine and may lock a mutex that callers of
	// [Engine.Enqueue] hold.
	Message() (cloudevents.Message, error)
	// Settled is called at the end of the item. err is nil when the broker has acknowledged the
	// message, and [cloudevents.ErrConnectionLost] when an item of LaneControl or LaneBulk was dropped
	// with its connection. Otherwise it is the reason why the message cannot be encoded or is
	// permanently refused. It must not block.
	Settled(err error)
}

// Refusable is an [Item] of [LaneLive] that is notified when it must wait for the next connection.
type Refusable interface {
	Item
	// Refused is called with the broker's reason each time that the broker refuses the item, except
	// temporarily or as too large. Settled follows when a later connection has ended the item.
	// Refused must not block.
	Refused(err error)
}

// Requirement is an [Item] of [LaneControl] without which the client receives nothing, such as the
// first request of a connection. When the broker refuses it, for any reason, it is published again
// on the same connection. Until the broker accepts it, the engine is not ready, and
// [Engine.Refused] returns the reason.
type Requirement interface {
	Item
	// Required reports whether the item is a requirement.
	Required() bool
}

func required(it Item) bool {
	r, ok := it.(Requirement)
	return ok && r.Required()
}
