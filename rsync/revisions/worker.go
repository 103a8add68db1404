// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Failed events are retried after a delay that doubles.
const (
	retryBase = time.Second
	retryMax  = 5 * time.Minute
)

// worker rolls out the targets of one application.
type worker struct {
	manager     *Manager
	application string
	there       bool // all objects of earlier processes exist; used only by run

	mu      sync.Mutex
	taken   *Target // the current target
	waiting *Target // a newer target, or nil
	again   bool    // its rollout must start again
	status  Status
	done    bool           // the current target is reached
	changed wait.Broadcast // woken when one of the fields above changes
}

// set sets the target. A target equal to the newest one is not newer: its cause and user stay.
func (w *worker) set(target Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil || !w.waiting.same(&target) {
		w.waiting = &target
	}
	if w.taken != nil && w.taken.same(&target) && !w.again {
		w.waiting = nil
	}
	w.changed.Wake()
}

// retry starts a failed or aborted rollout again. It returns when this is stored, or ctx ends.
func (w *worker) retry(ctx context.Context) error {
	w.mu.Lock()
	w.again = true
	if w.waiting == nil {
		w.waiting = w.taken
	}
	w.changed.Wake()
	w.mu.Unlock()
	for {
		w.mu.Lock()
		again, changed := w.again, w.changed.Next()
		w.mu.Unlock()
		if !again {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("store the restart of the rollout of %s: %w", w.application, ctx.Err())
		}
	}
}

// take makes the newest target the current one, and returns it.
func (w *worker) take() Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting != nil {
		w.taken, w.waiting, w.done = w.waiting, nil, false
	}
	return *w.taken
}

// newer returns the newer target, or nil, and a channel that is closed at the next change.
func (w *worker) newer() (*Target, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting, w.changed.Next()
}

// awaitNewer waits for a newer target. It returns false if ctx ends or the time is over before.
func (w *worker) awaitNewer(ctx context.Context, over <-chan time.Time) bool {
	for {
		target, changed := w.newer()
		if target != nil {
			return true
		}
		select {
		case <-changed:
		case <-over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// report returns the status, and a channel that is closed at the next change.
func (w *worker) report() (Status, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	s.Settled = w.done && w.waiting == nil
	return s, w.changed.Next()
}

// show sets the status. done is whether the current target is reached.
func (w *worker) show(state State, revision, from int, done bool, message string) {
	now := Status{State: state, Revision: revision, From: from, Message: message}
	w.mu.Lock()
	if now.Since = w.status.Since; now != w.status || done != w.done {
		now.Since = time.Now()
		w.status, w.done = now, done
		w.changed.Wake()
	}
	w.mu.Unlock()
	w.manager.options.Changed()
}

// run works until ctx ends, or the application is removed.
func (w *worker) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("application", w.application))
	for w.awaitNewer(ctx, nil) {
		target := w.take()
		w.insist(ctx, target)
		if ctx.Err() != nil || target.Content == nil && w.manager.leave(w) {
			return
		}
	}
}

// insist retries until the target is reached, a newer one waits, or ctx ends.
func (w *worker) insist(ctx context.Context, target Target) {
	for failures := 0; ; failures++ {
		err := w.reach(ctx, target)
		if err == nil || ctx.Err() != nil {
			return
		}
		s, _ := w.report()
		message := err.Error()
		if e := new(rsync.EventError); errors.As(err, &e) { // without the names of events
			message = e.Message
			if reason := string(e.Reason); !strings.Contains(message, reason) {
				message = strings.TrimSuffix(reason+": "+message, ": ")
			}
		}
		if s.State != Failed || s.Message != message {
			klog.FromContext(ctx).Error(err, "Failed to roll out, retrying", "revision", s.Revision)
		}
		w.show(Failed, s.Revision, s.From, false, message)
		retry := time.After(wait.Backoff(retryBase, retryMax, failures))
		if errors.As(err, new(*haltedError)) {
			retry = nil // until Resume, or a newer target
		}
		if w.awaitNewer(ctx, retry) || ctx.Err() != nil {
			return
		}
	}
}

// reach does all steps to a target, unless a newer one waits. It returns the error of a failed step.
func (w *worker) reach(ctx context.Context, target Target) error {
	r, err := w.choose(ctx, target)
	if err != nil {
		return err
	}
	if target.Content != nil && r.Wanted == 0 {
		w.show(Unplaced, 0, 0, true, "")
		return nil
	}
	for {
		revisions, busy, err := w.observe(ctx, r)
		if err != nil {
			return err
		}
		if len(busy) > 0 {
			// Events of an earlier process, or stopped events.
			w.show(Rolling, r.Wanted, busy[0].from(), false, "")
			if err := w.waitAll(ctx, r, busy); err != nil && !errors.As(err, new(*rsync.EventError)) {
				return err
			}
			continue // the states decide the next step
		}
		if newer, _ := w.newer(); newer != nil {
			return nil
		}
		s := next(revisions, r.Wanted)
		if s.verb == nothing {
			if s, err = w.rewrite(ctx, r, target); err != nil {
				return err
			}
			target.Rollout = nil // it is complete on all clusters
		}
		if s.verb == nothing {
			return w.reached(ctx, r, revisions)
		}
		r.Reached = false
		if err := w.do(ctx, r, revisions, s, target); err != nil {
			return err
		}
		if s.verb == instantiate || s.verb == update {
			newer, _ := w.newer()
			w.there = newer == nil // they write all objects, unless they are stopped for a newer target
		}
	}
}

// rewrite returns the step after all steps are done: none, or an Instantiate if objects are missing.
func (w *worker) rewrite(ctx context.Context, r *record, target Target) (step, error) {
	if w.there || r.Wanted == 0 {
		return step{}, nil
	}
	missing, err := w.manager.options.Missing(ctx, target.Content)
	if err != nil {
		return step{}, err
	}
	if w.there = !missing; w.there {
		return step{}, nil
	}
	klog.FromContext(ctx).Info("Detected missing objects, writing them again", "revision", r.Wanted)
	return step{verb: instantiate, number: r.Wanted}, nil
}

// choose finds the revision of a target, or adds it, and stores that it is wanted.
func (w *worker) choose(ctx context.Context, target Target) (r *record, err error) {
	w.mu.Lock()
	again := w.again
	w.mu.Unlock()
	defer func() {
		if again && err == nil {
			w.mu.Lock()
			w.again = false // the retry is stored
			w.changed.Wake()
			w.mu.Unlock()
		}
	}()
	r, err = w.manager.load(ctx, w.application)
	if err != nil {
		return nil, err
	}
	if target.Content == nil {
		if r.Wanted != 0 {
			r.Wanted, r.Reached = 0, false
			err = w.manager.save(ctx, w.application, r)
		}
		return r, err
	}
	if target.Content.clusters() == 0 && len(r.Revisions) == 0 {
		return r, nil // the first revision needs a cluster
	}
	changed := r.attempt(target.Rollout, again)
	digest := target.Content.Digest()
	for _, number := range []int{target.Revision, r.Wanted} {
		if known := r.find(number); known != nil && known.Digest == digest {
			if r.Wanted != number {
				r.Wanted, changed = number, true
				r.Attempt++
			}
			if changed {
				r.Reached = false
				err = w.manager.save(ctx, w.application, r)
			}
			return r, err
		}
	}
	data, err := json.Marshal(target.Content.Source)
	if err != nil {
		return nil, fmt.Errorf("encode the source of the application %s: %w", w.application, err)
	}
	empty := appcontext.AppContext{ID: ContextID(w.application, r.Next)}
	if err := appcontext.Validate(&empty); err != nil { // before the name is part of a key
		return nil, err
	}
	r.Wanted, r.Reached = r.Next, false
	r.Next++
	r.Revisions = append(r.Revisions, Revision{
		Number: r.Wanted, Digest: digest, Source: target.Content.SourceDigest(), Cause: target.Cause, By: target.By,
		Created: time.Now().UTC().Round(time.Second), Clusters: target.Content.clusters(),
	})
	err = w.manager.save(ctx, w.application, r, store.Put(w.manager.sourceKey(w.application, r.Wanted), data))
	return r, err
}

// do executes a step, and waits for its event.
func (w *worker) do(ctx context.Context, r *record, revisions []revisionState, s step, target Target) error {
	engine, id := w.manager.engine, ContextID(w.application, s.number)
	switch {
	case s.verb == create:
		err := engine.Create(ctx, &appcontext.AppContext{
			ID: id, Meta: appcontext.Meta{CompositeApp: w.application}, Apps: target.Content.Apps,
		})
		if errors.Is(err, rsync.ErrConflict) {
			return nil
		}
		return err
	case s.verb == remove:
		return engine.Delete(ctx, id)
	case s.verb == terminate:
		w.show(Rolling, 0, s.number, false, "")
		klog.FromContext(ctx).Info("Started to remove an application", "cause", target.Cause)
		return w.terminate(ctx, r, revisions)
	case s.verb == instantiate:
		klog.FromContext(ctx).Info("Started a rollout", "revision", s.number, "clusters", target.Content.clusters(), "cause",
			target.Cause)
	case s.rollback:
		klog.FromContext(ctx).Info("Started a rollback", "from", s.from, "revision", s.number, "clusters",
			target.Content.clusters())
	default:
		klog.FromContext(ctx).Info("Started an update", "from", s.from, "revision", s.number, "clusters",
			target.Content.clusters(), "cause", target.Cause)
	}
	e, err := w.begin(ctx, r, s, target)
	if err != nil {
		return err
	}
	return w.wait(ctx, r, e)
}

// terminate terminates all live revisions at once, so that a revision does not wait for a cluster
// because of another.
func (w *worker) terminate(ctx context.Context, r *record, revisions []revisionState) error {
	var all []event
	for _, known := range revisions {
		if !known.live() {
			continue
		}
		ref, err := w.manager.engine.Terminate(ctx, ContextID(w.application, known.number))
		if err != nil {
			return err
		}
		all = append(all, event{id: ref.AppContextID, Element: rsync.Element{Seq: ref.Seq, Event: rsync.Terminate}})
	}
	return w.waitAll(ctx, r, all)
}

// reached deletes old revisions and sets the final status.
func (w *worker) reached(ctx context.Context, r *record, revisions []revisionState) error {
	m := w.manager
	if r.Wanted == 0 {
		_, err := m.store.Txn(ctx, nil, []store.Op{
			store.Delete(w.manager.recordKey(w.application)), store.DeletePrefix(m.sources() + w.application + "/"),
		})
		if s, _ := w.report(); err == nil && s.State != Removed {
			klog.FromContext(ctx).Info("Removed an application from all clusters")
			w.show(Removed, 0, 0, true, "")
		}
		return err
	}
	for _, number := range old(revisions, r.Wanted, m.options.Keep) {
		if err := m.engine.Delete(ctx, ContextID(w.application, number)); err != nil &&
			!errors.Is(err, rsync.ErrNotFound) {
			return err
		}
		r.Revisions = slices.DeleteFunc(r.Revisions, func(known Revision) bool { return known.Number == number })
		if err := m.save(ctx, w.application, r, store.Delete(w.manager.sourceKey(w.application, number))); err != nil {
			return err
		}
	}
	if !r.Reached {
		r.Reached = true
		if err := m.save(ctx, w.application, r); err != nil {
			return err
		}
	}
	if s, _ := w.report(); s.State != Deployed || s.Revision != r.Wanted {
		klog.FromContext(ctx).Info("Deployed an application", "revision", r.Wanted)
	}
	w.show(Deployed, r.Wanted, 0, true, "")
	return nil
}
