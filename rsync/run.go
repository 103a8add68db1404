// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// run is a context that a session works on. All fields belong to its step, except queueChanged and
// those that mu guards. At most one step runs at a time.
type run struct {
	id      string
	session *session
	engine  *Engine

	queueChanged atomic.Bool

	mu        sync.Mutex
	inbox     []result
	waitedFor []*gate // gates with a wait that has ended
	abandoned bool

	img      *image     // nil until it is read
	work     *work      // the event in progress, or nil
	ended    []*Element // elements that the next commit ends
	released bool       // the last commit ended the ownership
}

// work is an event in progress.
type work struct {
	element *Element
	row     Transition
	tasks   []*task
	gates   []*gate
	open    int     // tasks that have not ended
	queued  []*task // to be processed in the next advance
	dirty   []*task // tasks with a status to write
	cut     Reason  // set when it must not wait any longer
	hard    bool    // it must not begin anything either
	broken  string  // the reason why it cannot begin
	rollout *rollout
	late    lateNotes
}

var (
	// errLost is returned when another engine owns the context, or the context was deleted.
	errLost = errors.New("another engine owns the app context")
	// errChanged is returned when a condition of a write has changed. The context must be read
	// again.
	errChanged = errors.New("the app context has changed")
)

// deliver adds a result from a cluster to the inbox, unless the run was abandoned.
func (r *run) deliver(res result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.abandoned {
		r.inbox = append(r.inbox, res)
		r.session.ready.Add(r.id)
	}
}

func (r *run) take() ([]result, []*gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inbox, waited := r.inbox, r.waitedFor
	r.inbox, r.waitedFor = nil, nil
	return inbox, waited
}

func (r *run) abandon() {
	r.mu.Lock()
	r.abandoned = true
	r.inbox, r.waitedFor = nil, nil
	r.mu.Unlock()
	r.letGo()
}

// stopTimers stops the timers of the event in progress. Its gates then count as open, so a timer
// that has fired opens no gate.
func (r *run) stopTimers() {
	if r.work == nil {
		return
	}
	for _, g := range r.work.gates {
		g.open = true
		if g.timer != nil {
			g.timer.Stop()
		}
	}
	r.work.rollout.stop()
	r.work.late.stop()
}

// step does all work that is possible now. It reports whether the run waits for something.
func (r *run) step(ctx context.Context) (bool, error) {
	for {
		again, err := r.stepOnce(ctx)
		if errors.Is(err, errChanged) {
			r.img = nil
			r.letGo()
			continue
		}
		return again, err
	}
}

// letGo drops the event in progress from memory. It is resumed from the store.
func (r *run) letGo() {
	if r.work != nil {
		r.stopTimers()
		for _, t := range r.work.tasks {
			if t.op != nil && t.op.cluster != nil {
				t.op.cluster.forget(t.op)
			}
			t.op = nil
		}
		r.work = nil
		r.take()
	}
}

func (r *run) stepOnce(ctx context.Context) (bool, error) {
	if r.img == nil {
		r.queueChanged.Store(false)
		if ours, err := r.load(ctx); err != nil || !ours {
			return false, err
		}
	} else if r.queueChanged.Swap(false) {
		if err := r.refresh(ctx); err != nil {
			return false, err
		}
		r.hurried()
	}
	for !r.released {
		if r.work == nil {
			drained, err := r.next(ctx)
			if err != nil || drained {
				return false, err
			}
			continue
		}
		r.leaveOut()
		if err := r.cut(ctx); err != nil {
			return false, err
		}
		finished, err := r.advance(ctx)
		if err != nil || !finished {
			return true, err
		}
		if err := r.finish(ctx); err != nil || r.img == nil {
			return false, err
		}
	}
	return false, nil
}

// load reads the context. It returns false if the context does not exist, or if the session may not
// work on it.
func (r *run) load(ctx context.Context) (bool, error) {
	if r.session.isForeign(r.id) {
		if kv, rec, err := r.engine.stateOf(ctx, r.id); err != nil || kv.Exists() && !r.session.mine(r.id, rec.Owner) {
			return false, err
		}
	}
	img, err := r.engine.stored(ctx, r.id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil || !r.session.mine(r.id, img.record.Owner) {
		return false, err
	}
	slices.SortFunc(img.elements, func(a, b *Element) int { return cmp.Compare(a.Seq, b.Seq) })
	r.session.own(r.id)
	r.img, r.released = img, false
	return true, nil
}

// refresh reads the queue again, because other writers append to it.
func (r *run) refresh(ctx context.Context) error {
	img, err := r.engine.keysBelow(ctx, r.id, queueKey(r.id))
	if err != nil {
		return err
	}
	// Other writers only append.
	last := uint64(0)
	if n := len(r.img.elements); n > 0 {
		last = r.img.elements[n-1].Seq
	}
	for _, e := range img.elements { // in the order of their keys, which is the order of the queue
		if e.Seq > last {
			r.img.elements = append(r.img.elements, e)
		}
	}
	r.img.tail, r.img.tailKV = img.tail, img.tailKV
	r.img.detached, r.img.detachedKV = img.detached, img.detachedKV
	return r.reloadRollout(ctx)
}

func (img *image) element(seq uint64) *Element {
	compare := func(e *Element, seq uint64) int { return cmp.Compare(e.Seq, seq) }
	if i, ok := slices.BinarySearchFunc(img.elements, seq, compare); ok {
		return img.elements[i]
	}
	return nil
}

func (img *image) statusesOf(seq uint64) map[taskKey]*ClusterStatus {
	out := map[taskKey]*ClusterStatus{}
	for i := range img.statuses {
		if s := &img.statuses[i]; s.Seq == seq {
			out[taskKey{s.App, s.Cluster}] = s
		}
	}
	return out
}

func (img *image) pending() []*Element {
	var out []*Element
	for _, e := range img.elements {
		if e.Status == Pending {
			out = append(out, e)
		}
	}
	return out
}

// commit writes in one transaction, if the session is alive, the record is unchanged, an earlier
// owner has ended, and the conditions of t are met. It also writes the record next, unless it is nil. It
// returns ErrFenced without the session, errLost if the context is another engine's or was deleted,
// and otherwise errChanged.
func (r *run) commit(ctx context.Context, next *record, t transaction) error {
	all := []store.Compare{r.session.fence(), store.Unchanged(r.img.stateKV)}
	if owner := r.img.record.Owner; owner != "" && owner != r.session.name {
		all = append(all, store.Absent(engineKey(owner)))
	}
	fixed := len(all)
	all = append(all, t.compares...)
	if next != nil {
		next.Version++
		if next.State != r.img.record.State {
			next.Transitions++
		}
		t.ops = append(t.ops, r.img.head.putRecord(next)...)
	}
	ended := r.ended
	r.ended = nil
	result, err := r.engine.txn(ctx, all, t.ops)
	if err != nil {
		return fmt.Errorf("app context %q: %w", r.id, err)
	}
	if result.Succeeded {
		for _, e := range ended {
			r.engine.metrics.event(e)
		}
		r.img.revision = result.Revision
		if next != nil {
			r.img.record, r.released = *next, next.Owner == ""
			r.img.stateKV = store.KeyValue{Key: stateKey(r.id), ModRevision: result.Revision}
		}
		return nil
	}
	if result.Current[0].CreateRevision != r.session.epoch {
		r.session.lose(errors.New("the session's key was deleted"))
		return ErrFenced
	}
	if fixed > 2 && result.Current[2].Exists() {
		return r.lives(ctx, r.img.record.Owner)
	}
	for _, kv := range result.Current[fixed:] {
		if kv.Key == stopKey(r.id) && kv.Exists() {
			r.session.note(r.session.stopped, change{name: r.id, there: true})
		}
	}
	if now := result.Current[1]; now.ModRevision != all[1].Revision {
		return r.lost(now)
	}
	return errChanged
}

// lost returns errLost if the record now belongs to another session or was deleted. Otherwise it
// returns errChanged: this session has written the record in a transaction that lost its answer, or
// the owner has released it.
func (r *run) lost(now store.KeyValue) error {
	var rec record
	if !now.Exists() || json.Unmarshal(now.Value, &rec) == nil && !r.session.mine(r.id, rec.Owner) {
		return errLost
	}
	return errChanged
}

// lives records a live owner that the watch has not reported yet, so the session does not claim the
// context again and again. It returns errLost, or errChanged if the owner has ended since.
func (r *run) lives(ctx context.Context, owner string) error {
	r.session.note(r.session.engines, change{name: owner, there: true})
	// Read after the note: if the key exists, the watch reports its end later.
	kv, err := r.engine.store.Get(ctx, engineKey(owner))
	switch {
	case err != nil:
		return err
	case kv.Exists() && !r.session.mine(r.id, owner): // mine marks the context as foreign
		return errLost
	}
	r.session.sawEngines(r.session.note(r.session.engines, change{name: owner}))
	return errChanged
}

// nextRecord returns a copy of the record for its next value, with this session as its owner.
func (r *run) nextRecord() *record {
	next := r.img.record
	next.Owner, next.Writer = r.session.name, r.session.name
	return &next
}

// forgetAtOnce is the number of elements that leave the history with each new final element. With
// more than 1 a history that is too long gets shorter.
const forgetAtOnce = 2

// elementOps returns the writes of a final element, and the deletion of elements beyond the history
// limit.
func (r *run) elementOps(e *Element) []store.Op {
	e.Finished = r.engine.now()
	ops := []store.Op{putElement(r.id, e)}
	limit := uint64(r.engine.options.HistoryLimit)
	for range forgetAtOnce {
		old := r.img.elements[0] // at least e exists
		// an element that ends now is deleted later
		if old.Seq+limit > e.Seq || !old.Status.Final() || slices.Contains(r.ended, old) {
			break
		}
		ops = append(ops, store.Delete(elementKey(r.id, old.Seq)))
		if old.Rollout {
			ops = append(ops, store.Delete(rolloutKey(r.id, old.Seq)))
		}
		if old.IdempotencyKey != "" {
			ops = append(ops, store.Delete(idempotencyKey(r.id, old.IdempotencyKey)))
		}
		r.img.elements = r.img.elements[1:]
	}
	r.ended = append(r.ended, e)
	return ops
}

// releaseOps returns the writes that end the ownership of a context between two events. With an
// empty queue they delete the active record. Otherwise they put it again, so another session that
// is the home of the context sees it.
func (r *run) releaseOps(next *record) transaction {
	switch {
	case len(r.img.pending()) == 0:
		next.Owner = ""
		return transaction{[]store.Compare{store.Unchanged(r.img.tailKV)}, []store.Op{store.Delete(activeKey(r.id))}}
	case r.session.goesHome(r.id):
		next.Owner = ""
		return transaction{ops: []store.Op{putActive(r.id)}}
	}
	return transaction{}
}

// other returns the other context of an update. broken is the reason why it cannot be used.
func (r *run) other(ctx context.Context, e *Element) (other *appcontext.AppContext, broken string, err error) {
	if e.Event != Update && e.Event != UpdateDelete {
		return nil, "", nil
	}
	if other, err = r.engine.AppContext(ctx, e.UCID); err == nil {
		var detached detachedClusters
		if _, detached, err = r.engine.detachedOf(ctx, e.UCID); err == nil {
			return detached.without(other, e.Event), "", nil
		}
	}
	if errors.Is(err, ErrNotFound) || errors.As(err, new(*brokenError)) {
		return nil, err.Error(), nil
	}
	return nil, "", err
}
