// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures a [Manager]; the zero value is useful.
type Options struct {
	// Keep is how many revisions of an application are kept for rollbacks. Defaults to 10.
	Keep int
	// Patience is how long an event under way may hold up what is newer. Defaults to 30 s.
	Patience time.Duration
	// Missing reports whether something of what is to be on clusters is not written for their agents any more, although it was: then it is written anew. It is
	// asked once for each application, when that is reached for the first time. Nil means that nothing ever is.
	Missing func(context.Context, *render.Rendering) (bool, error)
	// Say is told what happens, in a line. It may be called from any goroutine. Nil means that nobody is.
	Say func(format string, args ...any)
	// Changed is called when a [Status] has. It must return at once.
	Changed func()
}

// Manager rolls applications out. All methods may be called from any goroutine.
type Manager struct {
	engine  *rsync.Engine
	store   store.Store
	options Options

	mu      sync.Mutex
	workers map[string]*worker
	ctx     context.Context // of Start, nil before
	ended   bool            // no worker begins any more
	group   sync.WaitGroup
}

// Target is what an application is to be.
type Target struct {
	// Rendering is what is to be on clusters; nil takes the application away.
	Rendering *render.Rendering
	Source    Source
	// Rollout limits how it moves over the clusters. Nil means all at once.
	Rollout *rsync.Rollout
	// Cause says in a few words why, for the list of revisions.
	Cause string
	// Revision is that of a rollback: where its content is the same it is that revision again, and not a new one.
	Revision int
}

// State says how far an application is.
type State string

// The states.
const (
	Pending  State = "Pending"  // it has not begun yet
	Unplaced State = "Unplaced" // it is on no cluster, and never was
	Rolling  State = "Rolling"  // an event is under way
	Deployed State = "Deployed" // what is wanted was written for the clusters' agents, and what is not is gone
	Failed   State = "Failed"   // the last event has failed, and is tried again
	Removed  State = "Removed"  // nothing of it is on clusters
)

// Status is what a [Manager] knows of an application.
type Status struct {
	Application string
	State       State
	// Revision is the one that is wanted, 0 for none; From is the one that is being left.
	Revision, From int
	// Message says why it failed, or what is under way.
	Message string
	Since   time.Time
	// Settled is whether all is done, and nothing newer waits.
	Settled bool
}

// New returns a manager for an engine that has the options Transitions and Everything of this package. The store is the engine's own.
func New(engine *rsync.Engine, s store.Store, options Options) *Manager {
	if options.Keep == 0 {
		options.Keep = 10
	}
	if options.Patience == 0 {
		options.Patience = 30 * time.Second
	}
	if options.Missing == nil {
		options.Missing = func(context.Context, *render.Rendering) (bool, error) { return false, nil }
	}
	if options.Say == nil {
		options.Say = func(string, ...any) {}
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	return &Manager{engine: engine, store: s, options: options, workers: map[string]*worker{}}
}

// Start works until ctx ends. It can be called once.
func (m *Manager) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	if m.ctx != nil {
		m.mu.Unlock()
		return errors.New("rollout: Start was called before")
	}
	m.ctx = ctx
	for _, w := range m.workers {
		m.run(w)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.group.Wait()
	return nil
}

// Set says what an application is to be. It returns at once; what was set before and has not begun is forgotten.
func (m *Manager) Set(application string, target Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[application]
	if w == nil {
		w = newWorker(m, application)
		m.workers[application] = w
		if m.ctx != nil && !m.ended {
			m.run(w)
		}
	}
	w.set(target)
}

// run begins a worker. With m.mu held.
func (m *Manager) run(w *worker) {
	ctx := m.ctx
	m.group.Go(func() { w.run(ctx) })
}

// Status returns what is known of an application.
func (m *Manager) Status(application string) (Status, bool) {
	m.mu.Lock()
	w := m.workers[application]
	m.mu.Unlock()
	if w == nil {
		return Status{}, false
	}
	return w.report(), true
}

// Rollout returns how far the rollout of an application is, or an [rsync.ErrNotFound] without one.
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

// Resume ends a pause. A rollout that failed or was aborted begins again. It returns when this is stored.
func (m *Manager) Resume(ctx context.Context, application string) error {
	status, err := m.Rollout(ctx, application)
	m.mu.Lock()
	w := m.workers[application]
	m.mu.Unlock()
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

// leave takes a worker away that has nothing to do any more. It reports whether nothing has come meanwhile.
func (m *Manager) leave(w *worker) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.newer() {
		return false
	}
	delete(m.workers, w.application)
	return true
}

// Settled returns when an application is what it is to be: Deployed or Removed, with nothing that waits. It is for tests and scripts; its error is that of ctx,
// with the last status.
func (m *Manager) Settled(ctx context.Context, application string) error {
	for {
		m.mu.Lock()
		w := m.workers[application]
		m.mu.Unlock()
		if w == nil {
			return nil
		}
		settled, changed := w.settled()
		if settled {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s := w.report()
			return fmt.Errorf("%w: %s is %s: %s", ctx.Err(), application, s.State, s.Message)
		}
	}
}
