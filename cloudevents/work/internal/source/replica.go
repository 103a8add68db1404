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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Replicas of a source share their subscriptions and a Store. The broker delivers each message to
// one replica. The leader handles every message and writes the result to the Store. The others
// mirror the Store, and store the messages that they receive for the leader.

// followRetry is how long a replica waits before it follows the store again after an error.
const followRetry = time.Second

// replica is a source that is one of several replicas: it acquires and loses leadership, and
// mirrors the Store. The source's mutex guards it. It is nil without a SharedGroup.
type replica struct {
	*records
	exchange *exchange
	id       string
	store    journal.SharedStore
	claimed  []byte         // this replica's last record for journal.KeyLeader
	current  []byte         // the last record for journal.KeyLeader that it has read; nil for none
	leader   storedLeader   // the content of current
	claims   uint64         // number of its claims
	outdated []byte         // its claim when it was behind: the store may still make a write with it
	turn     chan struct{}  // has a token during a claim
	follows  bool           // has the state of the store at position
	position string         // of the last batch; "" if the whole content must be read
	unsaved  []string       // keys of records that may differ from those of the store at position
	reading  bool           // Follow has to deliver the first state
	state    mirrored       // the parts of it
	behind   bool           // the store may have lost batches that this replica has read
	changed  wait.Broadcast // leads or follows has changed
	ended    chan struct{}  // closed when it stops following the store; then it cannot become the leader
	lost     error          // why it cannot follow the store, for Healthy; nil while it can
	since    time.Time      // when lost was first set
	inbox    inbox
}

// newReplica returns nil if the options have no SharedGroup.
func newReplica(r *records, x *exchange) *replica {
	store, ok := r.options.Store.(journal.SharedStore)
	if !ok || r.options.SharedGroup == "" {
		return nil
	}
	r.leads = false
	r.cache.Rewind(1) // versions come from the store
	id := uuid.NewString()
	return &replica{
		records: r, exchange: x, id: id, store: store,
		turn:  make(chan struct{}, 1),
		ended: make(chan struct{}),
		inbox: newInbox(id),
	}
}

// leaderLocked returns the record under journal.KeyLeader, or nil if this replica is not the
// leader.
func (r *replica) leaderLocked() []byte {
	if !r.leads {
		return nil
	}
	return r.claimed
}

// storedLeader is the record under journal.KeyLeader.
type storedLeader struct {
	Replica string `json:"replica"`
	Claim   uint64 `json:"claim"`
	// Version is the resourceVersion at which the leader begins, 0 for earlier releases.
	Version uint64 `json:"version,omitempty"`
}

// errNotLeading ends a call of Follow when this replica has lost leadership. Its memory may then
// have changes that the store does not have.
var errNotLeading = errors.New("another replica is the leader")

// confirmLead acquires leadership, and checks in the store that this replica still has it.
func (r *replica) confirmLead(ctx context.Context) error {
	if err := r.lead(ctx); err != nil || r == nil {
		return err
	}
	r.mu.Lock()
	term := r.term
	r.keepMetaLocked() // changes nothing, but the store rejects it if another replica is the leader
	r.mu.Unlock()
	if err := r.stored(ctx, term); !errors.Is(err, peer.ErrReplaced) {
		return err
	}
	return r.lead(ctx)
}

// refresh makes a replica read the changes of the other replicas. It reports whether there may be
// new changes.
func (r *replica) refresh(ctx context.Context) (bool, error) {
	if r == nil {
		return false, nil
	}
	return true, r.confirmLead(ctx)
}

// lead acquires leadership before a write. A write of a replica that has lost it meanwhile fails
// with ErrReplaced.
func (r *replica) lead(ctx context.Context) error {
	if r == nil {
		return ctx.Err()
	}
	r.mu.Lock()
	leads, started, sealed := r.leads, r.started, r.cache.Sealed()
	r.mu.Unlock()
	switch {
	case sealed || !leads && r.hasEnded():
		return peer.ErrStopped
	case leads:
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
	return r.claim(ctx)
}

func (r *replica) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// errLoaded ends the call of Follow in Load.
var errLoaded = errors.New("the store is loaded")

// Load calls f with the content of the store, except for the records of replicas. It implements
// [journal.Loader].
func (r *replica) Load(ctx context.Context, f func(key string, value []byte) error) error {
	err := r.store.Follow(ctx, "", nil, func(b journal.Batch) error {
		for _, c := range b.Changes {
			if r.loadOwn(c) {
				continue
			}
			if err := f(c.Key, c.Value); err != nil {
				return err
			}
		}
		if r.position = b.Position; r.position != "" {
			return errLoaded
		}
		return nil
	})
	switch {
	case errors.Is(err, errLoaded):
		return nil
	case err == nil:
		return ctx.Err()
	}
	return err
}

// loadOwn loads a record of replicas. It returns false for other records.
func (r *replica) loadOwn(c journal.Change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c.Key == journal.KeyLeader:
		r.readLeaderLocked(&c, true)
	case strings.HasPrefix(c.Key, journal.PrefixInbox):
		r.inbox.addLocked(c.Key, c.Value)
	default:
		return false
	}
	return true
}

// follow mirrors the store until ctx ends.
func (r *replica) follow(ctx context.Context) {
	if r == nil {
		return
	}
	defer close(r.ended)
	for ctx.Err() == nil {
		position, keys := r.resume()
		err := r.store.Follow(ctx, position, keys, r.followed)
		if errors.Is(err, errOutdated) {
			if err = r.claimAgain(ctx); err == nil {
				continue
			}
		}
		switch {
		case errors.Is(err, journal.ErrBehind):
			r.restart()
			continue
		case ctx.Err() != nil, errors.Is(err, errNotLeading):
			continue // the records of unsaved are read again
		}
		r.lose(err)
		_ = wait.Sleep(ctx, r.options.Clock, followRetry)
	}
}

// resume returns the arguments of the next call of Follow.
func (r *replica) resume() (position string, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.reading = mirrored{}, true
	return r.position, slices.Clone(r.unsaved)
}

// restart prepares to read the whole content, because batches are missing. The store may have lost
// them, so a leader may have works in memory that the store does not have: it must read the content
// too.
func (r *replica) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position, r.behind = "", true
	if r.leads {
		r.stopLeadingLocked()
	}
}

// lose records why the store cannot be followed.
func (r *replica) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.since = r.now()
		r.logger.Error(err, "Failed to follow the Store, retrying")
	}
	r.lost = fmt.Errorf("follow the Store: failing since %s, works may be stale: %w",
		r.since.UTC().Format(time.RFC3339), err)
}

// following returns an error while this replica cannot follow the store.
func (r *replica) following() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// followed handles a batch that a replica has applied, or a part of a state of the store.
func (r *replica) followed(b journal.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.follows && !r.reading { // it has changes that the store rejected
		return errNotLeading
	}
	if err := r.state.addLocked(r, b.Changes); err != nil || b.Position == "" {
		return err
	}
	batch := r.state
	r.state = mirrored{}
	if r.reading {
		batch.lacksRemovals, batch.whole = true, r.position == ""
	}
	led, leads, claimed := r.leads, r.leads, r.readLeaderLocked(batch.leader, batch.whole)
	if claimed {
		leads = r.claimed != nil && bytes.Equal(r.current, r.claimed)
	}
	if led && !leads {
		r.stopLeadingLocked()
		return errNotLeading
	}
	if led {
		if gap := r.workOffLocked(batch.events); gap {
			r.askAnewLocked()
		}
	} else if err := r.mirrorLocked(&batch); err != nil {
		return err
	}
	first := !r.follows
	r.leads = leads
	r.follows, r.reading, r.lost, r.position, r.unsaved = true, false, nil, b.Position, nil
	if led {
		return nil
	}
	if r.leads {
		r.logger.Info("Became the leader")
		r.term++
		r.workOffLocked(r.inbox.events)
		r.askAnewLocked()
	}
	if claimed || r.leads || first {
		r.changed.Wake()
	}
	if r.outdated != nil && bytes.Equal(r.current, r.outdated) {
		return errOutdated
	}
	r.outdated = nil
	return nil
}

// readLeaderLocked reads the record of the leader, if the batch has it. It reports whether the
// record may be another one.
func (r *replica) readLeaderLocked(c *journal.Change, whole bool) bool {
	if c == nil && !whole {
		return false
	}
	r.current, r.leader = nil, storedLeader{}
	if c != nil {
		r.current = bytes.Clone(c.Value)
		_ = json.Unmarshal(c.Value, &r.leader) // of an unreadable record, only the bytes matter
	}
	return true
}

// stopLeadingLocked drops the answers and the unsaved changes of this replica, because another
// replica is the leader now, or because the store may lack batches.
func (r *replica) stopLeadingLocked() {
	if r.leads {
		r.logger.Info("Lost the leadership")
		r.outdated, r.claimed = r.claimed, nil
	}
	r.leads = false
	r.term++
	r.exchange.giveUpLocked()
	discarded := r.journal.DiscardLocked(isEvent)
	r.unsaved = slices.Concat(r.unsaved, discarded, r.journal.WritingLocked())
	if len(discarded) > 0 {
		r.inbox.leaveLocked(r.journal, &storedEvent{}) // acknowledged events may have been dropped: the leader must resync
	}
	r.follows, r.reading = false, false
	r.changed.Wake()
}

// beforeAck returns a function that stores received events before they are acknowledged, by flush.
// If another replica becomes the leader meanwhile, the function leaves the events to it.
func (r *replica) beforeAck(flush func(context.Context) error) func(context.Context) error {
	if r == nil {
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

// askAnewLocked begins a resync if there is a connection. Otherwise the next connection begins one.
func (r *replica) askAnewLocked() {
	if r.engine.Connected() {
		r.exchange.beginLocked()
	}
}

// workOffLocked handles stored events as if this replica had received them. They leave the store
// together with their effects. It reports whether other events may be lost.
func (r *replica) workOffLocked(events map[string][]byte) (gap bool) {
	for _, key := range slices.Sorted(maps.Keys(events)) { // by replica, in the order of arrival
		if events[key] == nil {
			continue
		}
		topic, err := r.workOffOneLocked(events[key])
		switch {
		case err != nil:
			r.refuseLocked(topic, err, peer.RefusalReason(err), 1)
		case topic == "":
			gap = true
		}
		r.journal.MarkLocked(key, removed{}) // in place of its own event, if the store has not answered yet
		r.inbox.savedLocked(key)
		r.inbox.removeLocked(key)
	}
	return gap
}

func (r *replica) workOffOneLocked(value []byte) (topic string, err error) {
	var stored storedEvent
	if err := json.Unmarshal(value, &stored); err != nil || stored.Topic == "" {
		return "", err
	}
	event, err := codec.ParseStructured(stored.Event)
	if err != nil {
		return stored.Topic, err
	}
	msg, err := r.options.Profile.Decode(stored.Topic, event)
	if err != nil {
		return stored.Topic, err
	}
	r.metrics.CountEvent(event)
	return stored.Topic, r.exchange.receiveLocked(msg)
}

// tellOfGapLocked makes the leader resync, because this replica may have missed events while it was
// not connected.
func (r *replica) tellOfGapLocked() {
	if r != nil && !r.leads && !r.inbox.fullLocked() {
		r.inbox.leaveLocked(r.journal, &storedEvent{})
	}
}

// handOver stores an event for the leader. It returns false if this replica is the leader, or has
// no other replicas.
func (r *replica) handOver(m cloudevents.Message) bool {
	if r == nil {
		return false
	}
	event, err := codec.AppendStructured(nil, m.Event)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.leads:
		return false
	case r.agreesLocked(m): // most digests do: the leader need not see them
	case err != nil:
		r.refuseLocked(m.Topic, err, peer.RefusedNoEvent, 1)
	case r.inbox.fullLocked():
		if r.inbox.dropped++; r.inbox.dropped == 1 {
			r.logger.Info("Dropped events: no replica is the leader; the next leader requests the current state", "bytes",
				r.inbox.waiting)
		}
	default:
		r.inbox.dropped = 0
		r.inbox.leaveLocked(r.journal, &storedEvent{Topic: m.Topic, Event: event})
	}
	return true
}

// agreesLocked reports whether a message is a heartbeat that needs no action: the digests are
// equal, or the cluster sends too many.
func (r *replica) agreesLocked(m cloudevents.Message) bool {
	if !codec.IsDigest(m.Event) {
		return false
	}
	msg, err := r.options.Profile.Decode(m.Topic, m.Event)
	digest, ok := msg.(*codec.Digest)
	if err != nil || !ok || len(digest.Sums) != 1 {
		return false
	}
	c := r.clusters[digest.Cluster]
	if c == nil {
		return false
	}
	return !c.mayCompare() || c.digests.ownLocked(1).Equal(protocol.Digest{Works: digest.Works, Sums: digest.Sums})
}
