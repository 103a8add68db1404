// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/internal/readyqueue"
	"github.com/spokewire/sdk-go/rsync/store"
)

// session is the work of an engine under one lease. Each of its writes is conditional on its key,
// which the store deletes with the lease. All its goroutines are in group.
//
// Mutexes are locked in this order: session.mu, cluster.connMu, cluster.mu. A function that has
// locked cluster.mu may lock groupMu, observer.mu or the mutex of a run. These are locked last.
// observedContext.mu comes before observer.mu.
type session struct {
	engine *Engine
	name   string
	lease  store.Lease
	epoch  int64 // the revision at which its key was created

	ctx    context.Context
	cancel context.CancelCauseFunc
	ready  *readyqueue.Queue

	groupMu sync.Mutex
	group   sync.WaitGroup
	ended   bool

	observer *observer

	reads  chan struct{} // a slot for each call that reads records of other contexts
	writes writes

	mu       sync.Mutex
	engines  map[string]bool // the live sessions
	active   map[string]bool // the contexts with an active record
	stopped  map[string]bool
	owned    map[string]bool // contexts that the session owns or may own
	foreign  map[string]bool // active contexts that another session may own
	runs     map[string]*run
	failures map[string]int // consecutive failures of steps
	timers   map[string]clock.Timer
	clusters map[appcontext.ClusterID]*cluster
}

// maxReads limits the concurrent calls that read records of other contexts. An event on thousands
// of clusters would otherwise exceed the time limits of the store for reads and for the lease.
const maxReads = 64

// newSession gets a lease, and puts the session's key with the lease.
func newSession(ctx context.Context, e *Engine) (*session, error) {
	lease, err := e.store.Grant(ctx, e.options.LeaseTTL)
	if err != nil {
		return nil, fmt.Errorf("grant a lease: %w", err)
	}
	s := &session{
		engine: e, name: e.options.Name + "-" + rand.Text(), lease: lease, ready: readyqueue.New(),
		reads:   make(chan struct{}, maxReads),
		engines: map[string]bool{}, active: map[string]bool{}, stopped: map[string]bool{}, owned: map[string]bool{},
		foreign: map[string]bool{}, runs: map[string]*run{}, failures: map[string]int{}, timers: map[string]clock.Timer{},
		clusters: map[appcontext.ClusterID]*cluster{},
	}
	result, err := e.txn(ctx, []store.Compare{store.Absent(engineKey(s.name))},
		[]store.Op{store.PutLeased(engineKey(s.name), encode(s.name), lease)})
	if err != nil || !result.Succeeded {
		s.revoke(ctx)
		return nil, fmt.Errorf("write the session's key: %w", errors.Join(err, ctx.Err()))
	}
	s.epoch = result.Revision
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.observer = newObserver(s)
	return s, nil
}

// revoke ends the lease, so other engines can take over immediately.
func (s *session) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.engine.store.Revoke(ctx, s.lease); err != nil {
		klog.FromContext(ctx).V(1).Info("Failed to revoke the lease of an ended session, it expires by itself",
			"session", s.name, "reason", err.Error())
	}
}

// fence returns the condition of every write of the session.
func (s *session) fence() store.Compare { return store.SameLife(engineKey(s.name), s.epoch) }

func (s *session) run(ctx context.Context) error {
	defer s.cancel(nil)
	s.spawn(s.keepAlive)
	s.spawn(s.sweep)
	s.spawn(func() { s.follow(enginePrefix, s.engines, s.sawEngines) })
	s.spawn(func() { s.follow(stopPrefix, s.stopped, s.sawStop) })
	s.spawn(func() { s.follow(activePrefix, s.active, s.sawActive) })
	if s.engine.options.Observe != ObserveNothing {
		s.spawn(func() { s.follow(indexPrefix, map[string]bool{}, s.observer.sawIndex) })
	}
	for range s.engine.options.Workers {
		s.spawn(s.work)
	}
	<-s.ctx.Done()
	s.groupMu.Lock()
	s.ended = true
	s.groupMu.Unlock()
	s.ready.Close()
	s.group.Wait()
	for _, t := range s.timers {
		t.Stop()
	}
	for _, r := range s.runs {
		r.stopTimers()
	}
	s.observer.stop()
	s.closeClusters()
	s.revoke(ctx)
	return context.Cause(s.ctx)
}

// spawn starts a goroutine of the session. It returns false, and starts none, if the session has
// ended.
func (s *session) spawn(f func()) bool {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if s.ended {
		return false
	}
	s.group.Go(f)
	return true
}

func (s *session) lose(err error) { s.cancel(fmt.Errorf("%w: %w", ErrFenced, err)) }

// keepAlive renews the lease three times per LeaseTTL. By its own clock the session ends before the
// lease in the store, because it counts from the time of its request.
func (s *session) keepAlive() {
	ttl := s.engine.options.LeaseTTL
	deadline := s.engine.options.Clock.Now().Add(ttl)
	for {
		s.engine.sleep(s.ctx, min(ttl/3, deadline.Sub(s.engine.options.Clock.Now())))
		asked := s.engine.options.Clock.Now()
		if s.ctx.Err() != nil {
			return
		}
		if !asked.Before(deadline) {
			s.lose(errors.New("the lease expired before it was renewed"))
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, deadline.Sub(asked))
		err := s.engine.store.KeepAlive(ctx, s.lease)
		cancel()
		switch {
		case err == nil:
			deadline = asked.Add(ttl)
		case errors.Is(err, store.ErrLeaseNotFound):
			s.lose(err)
			return
		}
	}
}

// writes records whether the store accepts writes. Lease renewals do not show that: an etcd without
// space accepts them.
type writes struct {
	mu       sync.Mutex
	failures int  // of all writes; a write that began before the last failure does not end failing
	failing  bool // a write has failed, and no later one has succeeded
	probing  bool
	err      error // of the last probe; Healthy returns it
}

// probeBackoff is the time between probes. probeLimit limits the time of one probe.
var probeBackoff = Backoff{Base: 500 * time.Millisecond, Max: 10 * time.Second}

const probeLimit = 10 * time.Second

// refused starts probing after the store has failed a write. Healthy fails only when a probe also
// fails, so one bad request does not make an engine unhealthy.
func (s *session) refused() {
	s.writes.mu.Lock()
	start := !s.writes.probing
	s.writes.failures++
	s.writes.failing, s.writes.probing = true, true
	s.writes.mu.Unlock()
	if start {
		s.spawn(s.probe)
	}
}

func (s *session) refusals() int {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	return s.writes.failures
}

// accepted records a successful write, which began after that number of refusals.
func (s *session) accepted(refusals int) {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	if refusals == s.writes.failures {
		s.writes.failing, s.writes.err = false, nil
	}
}

// refusal returns the reason why the store accepts no writes, or nil.
func (s *session) refusal() error {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	return s.writes.err
}

// probe puts the session's key again until the store accepts that write or another one.
func (s *session) probe() {
	for attempt := 1; ; attempt++ {
		s.engine.sleep(s.ctx, probeBackoff.delay(attempt))
		if s.ctx.Err() != nil || !s.keepsProbing() {
			return
		}
		ctx, cancel := context.WithTimeoutCause(s.ctx, probeLimit,
			fmt.Errorf("the store did not answer in %s", probeLimit))
		result, err := s.engine.txn(ctx, []store.Compare{s.fence()},
			[]store.Op{store.PutLeased(engineKey(s.name), encode(s.name), s.lease)})
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel()
		switch {
		case errors.Is(err, store.ErrLeaseNotFound):
			s.lose(err)
		case err == nil && !result.Succeeded:
			s.lose(errors.New("the session's key was deleted"))
		case err != nil:
			s.probed(err)
		}
	}
}

// keepsProbing reports whether no write has succeeded since the last failure. If one has, it ends
// the probing.
func (s *session) keepsProbing() bool {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	s.writes.probing = s.writes.failing
	return s.writes.failing
}

func (s *session) probed(err error) {
	s.writes.mu.Lock()
	before := s.writes.err
	if s.writes.failing { // otherwise another write has succeeded meanwhile
		s.writes.err = fmt.Errorf("write to the store: %w", err)
	}
	s.writes.mu.Unlock()
	if before == nil && s.ctx.Err() == nil {
		klog.FromContext(s.ctx).Error(err, "Failed to write to the store, retrying", "engine", s.engine.options.Name)
	}
}

func (e *Engine) sleep(ctx context.Context, d time.Duration) {
	_ = wait.Sleep(ctx, e.options.Clock, d)
}

func (s *session) work() {
	for {
		id, ok := s.ready.Get()
		if !ok {
			return
		}
		if !s.tries(id) {
			s.failed(id, false)
			s.ready.Done(id)
			continue
		}
		r := s.runOf(id)
		again, err := r.step(s.ctx)
		switch {
		case s.ctx.Err() != nil:
		case err != nil && !errors.Is(err, errLost):
			klog.FromContext(s.ctx).Error(err, "Failed to process an app context, retrying", "appContext", id)
			s.drop(r)
			s.retryAfter(id, s.engine.options.Backoff.delay(s.failed(id, true)))
		case err != nil || !again:
			s.failed(id, false)
			s.drop(r)
			s.release(id)
		default:
			s.failed(id, false)
		}
		s.ready.Done(id)
	}
}

func (s *session) failed(id string, failed bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed {
		s.failures[id]++
	} else {
		delete(s.failures, id)
		if t := s.timers[id]; t != nil {
			t.Stop()
			delete(s.timers, id)
		}
	}
	return s.failures[id]
}

// retryAfter queues a context again after a time. With one timer for each context, events that are
// queued meanwhile start no more chains of retries.
func (s *session) retryAfter(id string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.timers[id]; t != nil {
		t.Stop()
	}
	s.timers[id] = s.addAfter(id, d)
}

func (s *session) addAfter(id string, d time.Duration) clock.Timer {
	return s.engine.options.Clock.AfterFunc(d, func() { s.ready.Add(id) })
}

func (s *session) runOf(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		r = &run{id: id, session: s, engine: s.engine}
		s.runs[id] = r
	}
	return r
}

// drop removes the run of a context. Its work is done, belongs to another session, or starts again.
func (s *session) drop(r *run) {
	s.mu.Lock()
	if s.runs[r.id] == r {
		delete(s.runs, r.id)
	}
	s.mu.Unlock()
	r.abandon()
}
