// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures a [Manager]; the zero value is ready to use.
type Options struct {
	// Keep is the number of revisions of an application that are kept for rollbacks. Defaults to
	// 10.
	Keep int
	// Patience is how long an event in progress may delay a newer target. Defaults to 30 s.
	Patience time.Duration
	// Missing reports whether some objects of a rendering, which was written for agents, are not
	// written any more. They are then written again. It is called once for each application, when
	// its target is first reached. Nil means that nothing is ever missing.
	Missing func(context.Context, *render.Rendering) (bool, error)
	// Log receives starts, ends and failures of rollouts. The zero value discards them.
	Log klog.Logger
	// Changed is called when a [Status] has changed. It must return at once.
	Changed func()
}

// Manager rolls applications out. Its methods may be called concurrently.
type Manager struct {
	engine  *rsync.Engine
	store   store.Store
	options Options

	mu      sync.Mutex
	workers map[string]*worker
	ctx     context.Context // of Start, nil before
	ended   bool            // no more workers are started
	group   sync.WaitGroup
}

// Target is the wanted state of an application.
type Target struct {
	// Rendering is the content for the clusters; nil removes the application.
	Rendering *render.Rendering
	// Rollout is the rollout over the clusters. Nil means all clusters at once.
	Rollout *rsync.Rollout
	// Cause is the reason in a few words, and By the user, for the list of revisions.
	Cause, By string
	// Revision is the revision of a rollback. If its content is the same, it is used again instead
	// of a new revision.
	Revision int
}

// State is the progress of an application.
type State string

// The states of an application.
const (
	Pending  State = "Pending"  // it has not started yet
	Unplaced State = "Unplaced" // it is on no cluster, and never was
	Rolling  State = "Rolling"  // an event is in progress
	Deployed State = "Deployed" // the wanted objects are written for the agents, and others are removed
	Failed   State = "Failed"   // the last event has failed, and is retried
	Removed  State = "Removed"  // it has no objects on clusters
)

// Status is the status of an application.
type Status struct {
	State State
	// Revision is the wanted revision, 0 for none; From is the revision that is being replaced.
	Revision, From int
	// Message is why it failed, or the work in progress.
	Message string
	Since   time.Time
	// Settled is whether the target is reached, and no newer one waits.
	Settled bool
}

// New returns a manager for an engine that has the options Transitions and Everything of this
// package. s is the engine's store.
func New(engine *rsync.Engine, s store.Store, options Options) *Manager {
	options.Keep = cmp.Or(options.Keep, 10)
	options.Patience = cmp.Or(options.Patience, 30*time.Second)
	if options.Missing == nil {
		options.Missing = func(context.Context, *render.Rendering) (bool, error) { return false, nil }
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	return &Manager{engine: engine, store: s, options: options, workers: map[string]*worker{}}
}

// Start runs the manager until ctx ends. It can be called once.
func (m *Manager) Start(ctx context.Context) error {
	m.mu.Lock()
	if m.ctx != nil {
		m.mu.Unlock()
		return errors.New("rollout: Start was called before")
	}
	m.ctx = ctx
	for _, w := range m.workers {
		m.group.Go(func() { w.run(m.ctx) })
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.group.Wait()
	return nil
}

// Set sets the target of an application. It returns at once. An earlier target that has not started
// is dropped.
func (m *Manager) Set(application string, target Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[application]
	if w == nil {
		w = &worker{manager: m, application: application, status: Status{State: Pending, Since: time.Now()}}
		m.workers[application] = w
		if m.ctx != nil && !m.ended {
			m.group.Go(func() { w.run(m.ctx) })
		}
	}
	w.set(target)
}

// Status returns the status of an application, and whether it is known.
func (m *Manager) Status(application string) (Status, bool) {
	w := m.worker(application)
	if w == nil {
		return Status{}, false
	}
	s, _ := w.report()
	return s, true
}

// worker returns the worker of an application, or nil.
func (m *Manager) worker(application string) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[application]
}

// Rollout returns the progress of the rollout of an application, or an [rsync.ErrNotFound] without
// a rollout.
func (m *Manager) Rollout(ctx context.Context, application string) (*rsync.RolloutStatus, error) {
	r, err := m.load(ctx, application)
	if err != nil {
		return nil, err
	}
	status, err := m.engine.Status(ctx, ContextID(application, r.Wanted))
	if err != nil && !errors.Is(err, rsync.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		if ref, ok := LastRollout(status); ok {
			return m.engine.RolloutStatus(ctx, ref)
		}
	}
	return nil, fmt.Errorf("a rollout of the application %s: %w", application, rsync.ErrNotFound)
}

// LastRollout returns the rollout that led to a revision. It returns false after a later event that is
// neither a rollout nor an automatic rollback.
func LastRollout(s *rsync.Status) (rsync.EventRef, bool) {
	isBack := func(e rsync.Element) bool {
		ref := rsync.EventRef{AppContextID: s.ID, Seq: e.Seq}
		return e.Event == rsync.UpdateDelete || slices.ContainsFunc(s.Queue, func(of rsync.Element) bool {
			return of.Rollback != nil && *of.Rollback == ref
		})
	}
	for _, e := range slices.Backward(s.Queue) {
		if e.Rollout {
			return rsync.EventRef{AppContextID: s.ID, Seq: e.Seq}, true
		}
		if !isBack(e) {
			break
		}
	}
	return rsync.EventRef{}, false
}

// Resume ends a pause. A rollout that failed or was aborted starts again. It returns when this is
// stored.
func (m *Manager) Resume(ctx context.Context, application string) error {
	status, err := m.Rollout(ctx, application)
	w := m.worker(application)
	if err == nil && w != nil && status.Status.Final() && status.Status != rsync.Done {
		return w.retry(ctx)
	}
	return m.Control(ctx, application, (*rsync.Engine).Resume)
}

// Control calls a method of the engine for the rollout of an application. It returns the errors of
// Rollout and of the method.
func (m *Manager) Control(
	ctx context.Context, application string, method func(*rsync.Engine, context.Context, rsync.EventRef) error,
) error {
	status, err := m.Rollout(ctx, application)
	if err == nil {
		err = method(m.engine, ctx, status.Ref)
	}
	m.options.Changed()
	return err
}

// leave removes an idle worker. It returns false if a newer target was set.
func (m *Manager) leave(w *worker) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if newer, _ := w.newer(); newer != nil {
		return false
	}
	delete(m.workers, w.application)
	return true
}

// Settled returns when an application is Deployed or Removed, and no target waits. It is for tests
// and scripts. The error is that of ctx, with the last status.
func (m *Manager) Settled(ctx context.Context, application string) error {
	for {
		w := m.worker(application)
		if w == nil {
			return nil
		}
		s, changed := w.report()
		if s.Settled {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s is %s: %s", ctx.Err(), application, s.State, s.Message)
		}
	}
}
