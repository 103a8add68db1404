// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Replicas of a source share their subscriptions and a Store. The broker delivers each message to
// one replica. The leader handles every message and writes the result to the Store. The others
// mirror the Store, and store the messages that they receive for the leader.

const (
	// maxInbox bounds the events of one replica that wait for the leader, in bytes. Further events
	// are dropped: a replica that becomes the leader begins a resync.
	maxInbox = 16 << 20
	// inboxCost is the estimated size of an event in the inbox without its record, in bytes.
	inboxCost = 256
	// followRetry is how long a replica waits before it follows the store again after an error.
	followRetry = time.Second
)

// replica is the state of a source that is one of several replicas. The source's mutex guards it.
type replica struct {
	id      string
	store   journal.SharedStore
	claim   []byte        // this replica's last record for journal.KeyLeader
	claims  uint64        // number of its claims
	turn    chan struct{} // has a token during a claim
	term    uint64        // counts the changes of writes: a change that is not durable in its term is lost
	writes  bool
	follows bool           // has read the whole content of the store
	changed wait.Broadcast // writes or follows has changed
	ended   chan struct{}  // closed when it stops following the store; then it cannot become the leader
	lost    error          // why it cannot follow the store; nil while it can
	since   time.Time      // when lost was first set

	inbox   map[string][]byte // events that wait for the leader, by key
	sent    uint64            // number of its own last event
	waiting int               // bytes of its own events in inbox, or not stored yet
	most    int               // limit of waiting
	dropped int               // number of its own events that were dropped in a row
}

// storedWriter is the record under journal.KeyLeader.
type storedWriter struct {
	Replica string `json:"replica"`
	Claim   uint64 `json:"claim"`
}

// storedEvent is the record of an event that waits for the leader. A record without a topic reports
// that events may be lost, because a connection of the replica broke.
type storedEvent struct {
	Topic string          `json:"topic"`
	Event json.RawMessage `json:"event"`

	replica *replica // counts it in waiting: first as unsaved, then as a part of the inbox
}

func (e *storedEvent) Content() any { return e }
func (e *storedEvent) Saved()       { e.replica.waiting -= e.size() }
func (e *storedEvent) size() int    { return inboxCost + len(e.Topic) + len(e.Event) }

// removed is a record that was deleted.
type removed struct{}

func (removed) Content() any { return nil }
func (removed) Saved()       {}

// errNotWriting ends a call of Follow when this replica has lost leadership. Its memory may then
// have changes that the store does not have.
var errNotWriting = errors.New("another replica is the leader")

func newReplica(s journal.SharedStore) *replica {
	return &replica{
		id: uuid.NewString(), store: s,
		turn:  make(chan struct{}, 1),
		ended: make(chan struct{}),
		inbox: map[string][]byte{},
		most:  maxInbox,
	}
}

// journalOptions returns the options of the journal. With a SharedGroup, the source becomes a
// replica, and the store rejects its batches after another replica has become the leader.
func (s *Source) journalOptions() journal.Options {
	options := journal.Options{
		Store: s.options.Store, Lock: s.cache, Meta: (*sourceMeta)(s), Clock: s.options.Clock,
		DrainTimeout: s.options.DrainTimeout, Wrote: func(began time.Time, err error) { s.metrics.StoreWrote(began, err) },
	}
	shared, ok := s.options.Store.(journal.SharedStore)
	if !ok || s.options.SharedGroup == "" {
		return options
	}
	r := newReplica(shared)
	s.replica = r
	options.Leader = func() []byte {
		if !r.writes {
			return nil
		}
		return r.claim
	}
	options.Replaced = s.stopWriting
	return options
}

// writingLocked reports whether this source handles events: it is the leader, and no newer process
// has its ID.
func (s *Source) writingLocked() bool { return s.leadingLocked() && !s.outranked }

// leadingLocked reports whether this source writes to the store: it is the leader, or has no other
// replicas.
func (s *Source) leadingLocked() bool { return s.replica == nil || s.replica.writes }

// Lead implements the method of work.Source.
func (s *Source) Lead(ctx context.Context) error {
	if err := s.lead(ctx); err != nil || s.replica == nil {
		return err
	}
	s.cache.Lock()
	term := s.replica.term
	s.keepMeta() // changes nothing, but the store rejects it if another replica is the leader
	s.cache.Unlock()
	if err := s.stored(ctx, term); !errors.Is(err, peer.ErrReplaced) {
		return err
	}
	return s.lead(ctx)
}

// refresh makes a replica read the changes of the other replicas. It reports whether there may be
// new changes.
func (s *Source) refresh(ctx context.Context) (bool, error) {
	if s.replica == nil {
		return false, nil
	}
	return true, s.Lead(ctx)
}

// lead acquires leadership before a write. A write of a replica that has lost it meanwhile fails
// with ErrReplaced.
func (s *Source) lead(ctx context.Context) error {
	r := s.replica
	if r == nil {
		return ctx.Err()
	}
	s.cache.Lock()
	writes, started, sealed := r.writes, s.started, s.cache.Sealed()
	s.cache.Unlock()
	switch {
	case sealed || !writes && r.hasEnded():
		return peer.ErrStopped
	case writes:
		return ctx.Err()
	case !started:
		return apierrors.NewServiceUnavailable("the replica is not started: it has not read the changes of other replicas")
	}
	select {
	case r.turn <- struct{}{}:
	case <-r.ended:
		return peer.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	return s.claim(ctx)
}

func (r *replica) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// claim claims leadership in the store. It waits until this replica has read its claim back, and
// with it all changes that were stored before.
func (s *Source) claim(ctx context.Context) error {
	r := s.replica
	for {
		s.cache.Lock()
		writes, follows, changed := r.writes, r.follows, r.changed.Next()
		var claim []byte
		var err error
		if !writes && follows && !r.hasEnded() {
			r.claims++
			claim, err = journal.Encode(&storedWriter{Replica: r.id, Claim: r.claims})
			r.claim = claim
		}
		s.cache.Unlock()
		switch {
		case err != nil:
			return err
		case writes:
			return nil
		case claim != nil:
			if err := r.store.Apply(ctx, []journal.Change{{Key: journal.KeyLeader, Value: claim}}); err != nil {
				return fmt.Errorf("become the leader: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
			return peer.ErrStopped
		case <-changed: // the claim succeeded, or another replica was faster
		}
	}
}

// follow mirrors the store until ctx ends.
func (s *Source) follow(ctx context.Context) {
	if s.replica == nil {
		return
	}
	defer close(s.replica.ended)
	for ctx.Err() == nil {
		whole := true
		err := s.replica.store.Follow(ctx, func(changes []journal.Change) error {
			defer func() { whole = false }()
			return s.followed(changes, whole)
		})
		if ctx.Err() != nil || errors.Is(err, errNotWriting) {
			continue // the content is read again, and replaces the unsaved changes of this replica
		}
		s.lose(err)
		_ = wait.Sleep(ctx, s.options.Clock, followRetry)
	}
}

// lose records why the store cannot be followed.
func (s *Source) lose(err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.replica
	if r.lost == nil {
		r.since = s.options.Clock.Now()
		s.logger.Error(err, "Failed to follow the Store, retrying")
	}
	r.lost = err
}

// following returns an error while this replica cannot follow the store.
func (s *Source) following() error {
	if s.replica == nil {
		return nil
	}
	s.cache.Lock()
	defer s.cache.Unlock()
	if r := s.replica; r.lost != nil {
		return fmt.Errorf("follow the Store: failing since %s, works may be stale: %w", r.since.UTC().Format(time.RFC3339),
			r.lost)
	}
	return nil
}

// followed handles a batch that a replica has applied. whole is whether it is the whole content of
// the store.
func (s *Source) followed(changes []journal.Change, whole bool) error {
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.replica
	wrote, writes := r.writes, r.writes
	for _, c := range changes {
		if c.Key == journal.KeyLeader {
			writes = r.claim != nil && bytes.Equal(c.Value, r.claim)
		}
	}
	switch {
	case wrote && !writes:
		s.stopWriting()
		return errNotWriting
	case !r.follows && !whole: // it has changes that the store rejected
		r.writes = false
		return errNotWriting
	}
	r.writes = writes
	if wrote {
		r.lost = nil
		if gap := s.workOff(eventsOf(changes)); gap {
			s.askAnew()
		}
		return nil
	}
	if err := s.mirrorLocked(changes, whole); err != nil {
		return err
	}
	first := !r.follows
	r.follows, r.lost = true, nil
	if r.writes {
		s.logger.Info("Became the leader")
		r.term++
		s.workOff(r.inbox)
		s.askAnew()
	}
	if r.writes || first {
		r.changed.Wake()
	}
	return nil
}

// stopWriting drops the answers and the unsaved changes of this replica, because another replica is
// the leader now.
func (s *Source) stopWriting() {
	if s.replica.writes {
		s.logger.Info("Lost the leadership to another replica")
	}
	s.replica.writes = false
	s.replica.term++
	s.giveUpAnswersLocked()
	unsaved := s.journal.UnsavedLocked()
	s.journal.DiscardLocked(isEvent)
	if s.journal.UnsavedLocked() < unsaved {
		s.leave(&storedEvent{}) // acknowledged events may have been dropped: the leader must resync
	}
	s.replica.follows = false
	s.replica.changed.Wake()
}

// beforeAck returns a function that stores received events before they are acknowledged. If another
// replica becomes the leader meanwhile, the function leaves the events to it.
func (s *Source) beforeAck() func(context.Context) error {
	flush := s.journal.Commit()
	if s.replica == nil {
		return flush
	}
	return func(ctx context.Context) error {
		err := flush(ctx)
		if errors.Is(err, journal.ErrCondition) {
			err = flush(ctx)
		}
		return err
	}
}

// isEvent reports whether a record is an event for the leader. The journal of a replica that is not
// the leader writes no other records.
func isEvent(k journal.Record) bool {
	_, ok := k.(*storedEvent)
	return ok
}

// remember adds an event that waits for the leader to the inbox.
func (r *replica) remember(key string, value []byte) {
	r.forget(key)
	if r.owns(key) {
		r.waiting += inboxCost + len(value)
	}
	r.inbox[key] = value
}

func (r *replica) forget(key string) {
	if value, ok := r.inbox[key]; ok && r.owns(key) {
		r.waiting -= inboxCost + len(value)
	}
	delete(r.inbox, key)
}

func (r *replica) clearInbox() {
	for key := range r.inbox {
		r.forget(key)
	}
}

func (r *replica) owns(key string) bool { return strings.HasPrefix(key, journal.PrefixInbox+r.id+"/") }

// askAnew begins a resync if there is a connection. Otherwise the next connection begins one.
func (s *Source) askAnew() {
	if s.engine.Connected() {
		s.resyncLocked()
	}
}

// eventsOf returns the events in a batch that wait for the leader.
func eventsOf(changes []journal.Change) map[string][]byte {
	events := map[string][]byte{}
	for _, c := range changes {
		if strings.HasPrefix(c.Key, journal.PrefixInbox) && c.Value != nil {
			events[c.Key] = c.Value
		}
	}
	return events
}

// workOff handles stored events as if this replica had received them. They leave the store together
// with their effects. It reports whether other events may be lost.
func (s *Source) workOff(events map[string][]byte) (gap bool) {
	for _, key := range slices.Sorted(maps.Keys(events)) { // by replica, in the order of arrival
		topic, err := s.workOffOne(events[key])
		switch {
		case err != nil:
			s.refuseLocked(topic, err, peer.RefusalReason(err), 1)
		case topic == "":
			gap = true
		}
		s.journal.MarkLocked(key, removed{})
		s.replica.forget(key)
	}
	return gap
}

func (s *Source) workOffOne(value []byte) (topic string, err error) {
	var stored storedEvent
	if err := json.Unmarshal(value, &stored); err != nil || stored.Topic == "" {
		return "", err
	}
	event, err := codec.ParseStructured(stored.Event)
	if err != nil {
		return stored.Topic, err
	}
	msg, err := s.options.Profile.Decode(stored.Topic, event)
	if err != nil {
		return stored.Topic, err
	}
	s.metrics.CountEvent(event)
	return stored.Topic, s.receiveLocked(msg)
}

// tellOfGapLocked makes the leader resync, because this replica may have missed events while it was
// not connected.
func (s *Source) tellOfGapLocked() {
	if r := s.replica; r != nil && !r.writes && r.waiting < r.most {
		s.leave(&storedEvent{})
	}
}

// leave stores an event for the leader.
func (s *Source) leave(e *storedEvent) {
	r := s.replica
	r.sent++
	e.replica = r
	r.waiting += e.size()
	s.journal.MarkLocked(fmt.Sprintf("%s%s/%020d", journal.PrefixInbox, r.id, r.sent), e)
}

// handOver stores an event for the leader. It returns false if this replica is the leader, or has
// no other replicas.
func (s *Source) handOver(m cloudevents.Message) bool {
	if s.replica == nil {
		return false
	}
	event, err := codec.AppendStructured(nil, m.Event)
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.replica
	switch {
	case r.writes:
		return false
	case s.agreesLocked(m): // most digests do: the leader need not see them
	case err != nil:
		s.refuseLocked(m.Topic, err, peer.RefusedNoEvent, 1)
	case r.waiting >= r.most:
		if r.dropped++; r.dropped == 1 {
			s.logger.Info("Dropped events: no replica is the leader; the next leader requests the current state", "bytes",
				r.waiting)
		}
	default:
		r.dropped = 0
		s.leave(&storedEvent{Topic: m.Topic, Event: event})
	}
	return true
}
