// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"sync/atomic"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// Item is an item of the outbox with a message that does not change.
type Item struct {
	Profile codec.Profile
	Content codec.Message
}

// Message implements [engine.Item].
func (m *Item) Message() (cloudevents.Message, error) { return Encode(m.Profile, m.Content) }

// Settled implements [engine.Item].
func (m *Item) Settled(error) {}

// Requirement is a message that requests lists or statuses from all agents. Without it no answers
// arrive, so it is published until the broker accepts it or a later requirement replaces it.
type Requirement struct {
	Item
	asks  *atomic.Int64 // counts the requests to all agents
	ask   int64
	tried bool
}

// NewRequirement returns a requirement. asks counts the requests: a later one replaces it.
func NewRequirement(m Item, asks *atomic.Int64) *Requirement {
	return &Requirement{Item: m, asks: asks, ask: asks.Load()}
}

// Required implements [engine.Requirement].
func (r *Requirement) Required() bool { return true }

// Message implements [engine.Item].
func (r *Requirement) Message() (cloudevents.Message, error) {
	if r.tried && r.Replaced() {
		return cloudevents.Message{}, nil
	}
	r.tried = true
	return r.Item.Message()
}

// Replaced reports whether a later requirement replaces this one.
func (r *Requirement) Replaced() bool { return r.ask != r.asks.Load() }

// UnsentReason returns the reason of the condition for an event that was not published.
func UnsentReason(err error) string {
	var tooLarge *cloudevents.TooLargeError
	var malformed *codec.Error
	switch {
	case errors.As(err, &tooLarge):
		return "TooLarge"
	case errors.As(err, &malformed):
		return "NotEncodable"
	}
	return "NotPublished"
}
