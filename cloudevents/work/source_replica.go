// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Replicas of a source share their subscriptions and a Store. The broker gives each message to one of them. One writes:
// it decides what every message means, and brings that to the store. The others mirror the store, and put what the
// broker gives them into it for the writer. So an event has the same effect whoever gets it, and no decision is made on
// a view that is behind.

const (
	// maxInbox bounds the events of one replica that wait for the writer, in bytes. Beyond, they are dropped: a replica
	// that begins to write asks for everything that it lacks.
	maxInbox = 16 << 20
	// inboxCost is what an event in the inbox costs, besides its record.
	inboxCost = 256
	// followRetry is how long a replica waits before it follows a store anew that it lost.
	followRetry = time.Second
)

// replica is what a source knows of itself as one of several. The works' lock guards it.
type replica struct {
	id      string
	store   SharedStore
	claim   []byte        // the record under journal.KeyLeader that is this replica's
	claims  uint64        // how many it has made
	turn    chan struct{} // holds a token while somebody claims
	term    uint64        // counts the changes of writes: what was written in one and is not durable in it is lost
	writes  bool
	follows bool           // has seen all that was in the store when it began to follow
	changed wait.Broadcast // writes or follows
	ended   chan struct{}  // closed when it follows the store no more: from then on it does not begin to write
	lost    error          // why it cannot follow the store, nil while it can
	since   time.Time      // when that began

	inbox   map[string][]byte // events that wait for the writer, by key
	sent    uint64            // number of the last event of its own
	waiting int               // size of its own in inbox, or to be stored there
	most    int               // and the limit of that size
	dropped int               // how many of its own were dropped since the last that was not
}

// storedWriter is the record under journal.KeyLeader.
type storedWriter struct {
	Replica string `json:"replica"`
	Claim   uint64 `json:"claim"`
}

// storedEvent is the record of an event that waits for the writer. Without a topic it says that events may have been
// lost: those that the broker had given to this replica, or to an earlier process of it, when its link broke.
type storedEvent struct {
	Topic string          `json:"topic"`
	Event json.RawMessage `json:"event"`

	replica *replica // which counts it as waiting until it is stored, and then as part of the inbox
}

func (e *storedEvent) Content() any { return e }
func (e *storedEvent) Saved()       { e.replica.waiting -= e.size() }
func (e *storedEvent) size() int    { return inboxCost + len(e.Topic) + len(e.Event) }

// removed is a record that is gone.
type removed struct{}

func (removed) Content() any { return nil }
func (removed) Saved()       {}

// errNotWriting ends a view of the store that may differ from it: this replica has written to its own.
var errNotWriting = errors.New("another replica writes now")

func newReplica(s SharedStore) *replica {
	return &replica{
		id: uuid.NewString(), store: s,
		turn:  make(chan struct{}, 1),
		ended: make(chan struct{}),
		inbox: map[string][]byte{},
		most:  maxInbox,
	}
}

// journalOptions makes a source with a SharedGroup one of several. Batches of who writes are refused once another has
// claimed that.
func (s *Source) journalOptions() journal.Options {
	options := journal.Options{
		Store: s.options.Store, Lock: s.cache, Meta: (*sourceMeta)(s), Clock: s.options.Clock,
		DrainTimeout: s.options.DrainTimeout, Wrote: func(began time.Time, err error) { s.metrics.wrote(began, err) },
	}
	shared, ok := s.options.Store.(SharedStore)
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

// writingLocked reports whether this source decides.
func (s *Source) writingLocked() bool { return s.leadingLocked() && !s.outranked }

// leadingLocked reports whether it is this source that brings things to the store.
func (s *Source) leadingLocked() bool { return s.replica == nil || s.replica.writes }

// Lead makes this replica the leader of those that share a Store; see [SourceOptions].SharedGroup. It returns
// when the replica has read all changes of the previous leader. A write of the clientset does the same, so only
// a replica that may have nothing to write needs Lead. Without SharedGroup it has no effect.
//
// It returns ServiceUnavailable where Start has not been called, or its context has ended, and ctx's error. Where this
// replica writes already, it asks the store whether that still holds.
func (s *Source) Lead(ctx context.Context) error {
	if err := s.lead(ctx); err != nil || s.replica == nil {
		return err
	}
	s.cache.Lock()
	term := s.replica.term
	s.keepMeta() // changes nothing, but goes to the store under the condition that nobody else writes
	s.cache.Unlock()
	if err := s.stored(ctx, term); !errors.Is(err, errReplaced) {
		return err
	}
	return s.lead(ctx)
}

// refresh has a replica see what others have written. It reports whether that may be more than it saw before.
func (s *Source) refresh(ctx context.Context) (bool, error) {
	if s.replica == nil {
		return false, nil
	}
	return true, s.Lead(ctx)
}

// lead is Lead for who is about to write, and is told by that where this replica does not know yet that another writes.
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
		return errStopped
	case writes:
		return ctx.Err()
	case !started:
		return apierrors.NewServiceUnavailable("a replica writes once it is started: before, it does not know what others wrote")
	}
	select {
	case r.turn <- struct{}{}:
	case <-r.ended:
		return errStopped
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

// claim claims the writing and waits until the claim, and so all that was stored before it, has come back.
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
			if err := r.store.Apply(ctx, []Change{{Key: journal.KeyLeader, Value: claim}}); err != nil {
				return fmt.Errorf("take over the writing: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended:
			return errStopped
		case <-changed: // what was claimed came true, or another replica was faster
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
		err := s.replica.store.Follow(ctx, func(changes []Change) error {
			defer func() { whole = false }()
			return s.followed(changes, whole)
		})
		if ctx.Err() != nil || errors.Is(err, errNotWriting) {
			continue // the content is told anew, and replaces what only this replica knew
		}
		s.lose(err)
		_ = wait.Sleep(ctx, s.options.Clock, followRetry)
	}
}

// lose notes why the store cannot be followed.
func (s *Source) lose(err error) {
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.replica
	if r.lost == nil {
		r.since = s.options.Clock.Now()
		s.logger.Error(err, "Cannot follow the store, trying again")
	}
	r.lost = err
}

// following returns why this replica may not show what others have written.
func (s *Source) following() error {
	if s.replica == nil {
		return nil
	}
	s.cache.Lock()
	defer s.cache.Unlock()
	if r := s.replica; r.lost != nil {
		return fmt.Errorf("cannot follow the store since %s, so works may have changed: %w", r.since.UTC().Format(time.RFC3339), r.lost)
	}
	return nil
}

// followed takes a batch that somebody has applied; whole is whether it is all that the store has.
func (s *Source) followed(changes []Change, whole bool) error {
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
	case !r.follows && !whole: // it has written what the store did not take
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
		s.logger.Info("This replica writes now")
		r.term++
		s.workOff(r.inbox)
		s.askAnew()
	}
	if r.writes || first {
		r.changed.Wake()
	}
	return nil
}

// stopWriting forgets what this replica was about to do: it is another's to decide now.
func (s *Source) stopWriting() {
	if s.replica.writes {
		s.logger.Info("Another replica writes now")
	}
	s.replica.writes = false
	s.replica.term++
	s.giveUpAnswersLocked()
	unsaved := s.journal.UnsavedLocked()
	s.journal.DiscardLocked(isEvent)
	if s.journal.UnsavedLocked() < unsaved {
		s.leave(&storedEvent{}) // what had come and is acknowledged may be among it: the writer asks for it
	}
	s.replica.follows = false
	s.replica.changed.Wake()
}

// beforeAck makes durable what has come, before it is acknowledged. What another replica has to
// decide on meanwhile is left to that: the connection is as good as before.
func (s *Source) beforeAck() func(context.Context) error {
	flush := s.journal.Commit()
	if s.replica == nil {
		return flush
	}
	return func(ctx context.Context) error {
		err := flush(ctx)
		if errors.Is(err, ErrCondition) {
			err = flush(ctx)
		}
		return err
	}
}

// isEvent reports whether a record is an event for the writer, the only thing that others bring to the store.
func isEvent(k journal.Record) bool {
	_, ok := k.(*storedEvent)
	return ok
}

// remember notes an event that waits for the writer.
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

// askAnew begins a resync if there is a connection; else the next one does.
func (s *Source) askAnew() {
	if s.engine.Connected() {
		s.resyncLocked()
	}
}

// eventsOf returns the events in a batch that wait for the writer.
func eventsOf(changes []Change) map[string][]byte {
	events := map[string][]byte{}
	for _, c := range changes {
		if strings.HasPrefix(c.Key, journal.PrefixInbox) && c.Value != nil {
			events[c.Key] = c.Value
		}
	}
	return events
}

// workOff treats events as if they had come here. They leave the store together with what follows from them. It reports
// whether others may have been lost.
func (s *Source) workOff(events map[string][]byte) (gap bool) {
	keys := make([]string, 0, len(events))
	for key := range events {
		keys = append(keys, key)
	}
	slices.Sort(keys) // by replica, in the order of arrival
	for _, key := range keys {
		topic, err := s.workOffOne(events[key])
		switch {
		case err != nil:
			s.refuseLocked(topic, err, refusalReason(err), 1)
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
	s.metrics.took(event)
	return stored.Topic, s.receiveLocked(msg)
}

// tellOfGap has the writer ask for what this replica may have missed while it was not connected.
func (s *Source) tellOfGap() {
	s.cache.Lock()
	defer s.cache.Unlock()
	if r := s.replica; r != nil && !r.writes && r.waiting < r.most {
		s.leave(&storedEvent{})
	}
}

// leave puts an event where the writer finds it.
func (s *Source) leave(e *storedEvent) {
	r := s.replica
	r.sent++
	e.replica = r
	r.waiting += e.size()
	s.journal.MarkLocked(fmt.Sprintf("%s%s/%020d", journal.PrefixInbox, r.id, r.sent), e)
}

// handOver puts an event into the store for the writer. It returns false when this replica writes itself.
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
		s.refuseLocked(m.Topic, err, refusedNoEvent, 1)
	case r.waiting >= r.most:
		if r.dropped++; r.dropped == 1 {
			s.logger.Info("Dropping events: no replica writes, and the next one that does will ask for what it lacks", "bytes", r.waiting)
		}
	default:
		r.dropped = 0
		s.leave(&storedEvent{Topic: m.Topic, Event: event})
	}
	return true
}
