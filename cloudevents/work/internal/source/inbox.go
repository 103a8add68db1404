// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

const (
	// maxInbox bounds the events of one replica that wait for the leader, in bytes. Further events
	// are dropped: a replica that becomes the leader begins a resync.
	maxInbox = 16 << 20
	// inboxCost is the estimated size of an event in the inbox without its record, in bytes.
	inboxCost = 256
)

// inbox has the events that wait for the leader. The source's mutex guards it.
type inbox struct {
	prefix  string                  // of the keys of this replica's own events
	events  map[string][]byte       // by key
	unsaved map[string]*storedEvent // its own events that are not stored yet, or without an answer of the store
	sent    uint64                  // number of its own last event
	waiting int                     // bytes of its own events in events, or not stored yet
	most    int                     // limit of waiting
	dropped int                     // number of its own events that were dropped in a row
}

func newInbox(replica string) inbox {
	return inbox{
		prefix: journal.PrefixInbox + replica + "/", events: map[string][]byte{}, unsaved: map[string]*storedEvent{},
		most: maxInbox,
	}
}

// storedEvent is the record of an event that waits for the leader. A record without a topic reports
// that events may be lost, because a connection of the replica broke.
type storedEvent struct {
	Topic string          `json:"topic"`
	Event json.RawMessage `json:"event"`

	inbox *inbox // counts it in waiting: first in unsaved, then in events
	key   string
}

func (e *storedEvent) Content() any { return e }
func (e *storedEvent) Saved()       { e.inbox.savedLocked(e.key) }
func (e *storedEvent) size() int    { return inboxCost + len(e.Topic) + len(e.Event) }

// removed is a record that was deleted.
type removed struct{}

func (removed) Content() any { return nil }
func (removed) Saved()       {}

// isEvent reports whether a record is an event for the leader. The journal of a replica that is not
// the leader writes no other records.
func isEvent(k journal.Record) bool {
	_, ok := k.(*storedEvent)
	return ok
}

// addLocked adds an event that a replica has stored.
func (b *inbox) addLocked(key string, value []byte) {
	b.removeLocked(key)
	if strings.HasPrefix(key, b.prefix) {
		b.waiting += inboxCost + len(value)
	}
	b.events[key] = value
}

func (b *inbox) removeLocked(key string) {
	if value, ok := b.events[key]; ok && strings.HasPrefix(key, b.prefix) {
		b.waiting -= inboxCost + len(value)
	}
	delete(b.events, key)
}

func (b *inbox) clearLocked() {
	for key := range b.events {
		b.removeLocked(key)
	}
}

func (b *inbox) fullLocked() bool { return b.waiting >= b.most }

// leaveLocked stores an event for the leader.
func (b *inbox) leaveLocked(j *journal.Journal, e *storedEvent) {
	b.sent++
	e.inbox, e.key = b, fmt.Sprintf("%s%020d", b.prefix, b.sent)
	b.unsaved[e.key] = e
	b.waiting += e.size()
	j.MarkLocked(e.key, e)
}

// savedLocked notes that the store has an event of this replica.
func (b *inbox) savedLocked(key string) {
	if e := b.unsaved[key]; e != nil {
		b.waiting -= e.size()
		delete(b.unsaved, key)
	}
}
