// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures a [Manager]; the zero value is ready to use.
type Options struct {
	// Engine are the options of the engine. Transitions and Comparer must be nil: New sets them.
	Engine rsync.Options
	// Prefix is the prefix of the keys in the store, in addition to the keys of the engine. Defaults
	// to "/revisions/".
	Prefix string
	// Keep is the number of revisions of an application that are kept for rollbacks. Defaults to
	// 10.
	Keep int
	// Patience is how long an event in progress may delay a newer target. Defaults to 30 s.
	Patience time.Duration
	// Missing reports whether some objects of a content that was deployed are not written any more.
	// They are then written again. It is called once for each application in the life of a manager,
	// when its target is first reached. Nil means that nothing is ever missing.
	Missing func(context.Context, *Content) (bool, error)
	// Changed is called when a [Status] has changed. It must return at once.
	Changed func()
}

func (o Options) validate() error {
	switch {
	case o.Engine.Transitions != nil:
		return invalid("Engine.Transitions: must be nil: the manager sets it")
	case o.Engine.Comparer != nil:
		return invalid("Engine.Comparer: must be nil: the manager sets it")
	case o.Prefix != "" && !(strings.HasPrefix(o.Prefix, "/") && strings.HasSuffix(o.Prefix, "/")):
		return invalid("Prefix: %q: must begin and end with a slash", o.Prefix)
	case o.Keep < 0:
		return invalid("Keep: %d: must not be negative", o.Keep)
	case o.Patience < 0:
		return invalid("Patience: %s: must not be negative", o.Patience)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: invalid Options."+format, append([]any{rsync.ErrInvalidInput}, args...)...)
}

func (o Options) withDefaults() Options {
	o.Engine.Transitions, o.Engine.Comparer = transitions(), everything
	o.Prefix = cmp.Or(o.Prefix, "/revisions/")
	o.Keep = cmp.Or(o.Keep, 10)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Missing == nil {
		o.Missing = func(context.Context, *Content) (bool, error) { return false, nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return o
}

// Manager keeps applications at their targets. Its methods may be called concurrently. Methods that
// read need no Start.
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

// State is the progress of an application.
type State string

// The states of an application.
const (
	Pending  State = "Pending"  // it has not started yet
	Unplaced State = "Unplaced" // it is on no cluster, and never was
	Rolling  State = "Rolling"  // an event is in progress
	Deployed State = "Deployed" // the event of the wanted revision is complete, and other objects are removed
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

// New returns a manager with an engine on a store. It returns [rsync.ErrInvalidInput] for invalid
// options.
func New(s store.Store, connectors connector.Connectors, options Options) (*Manager, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	engine, err := rsync.New(s, connectors, options.Engine)
	if err != nil {
		return nil, err
	}
	return &Manager{engine: engine, store: s, options: options, workers: map[string]*worker{}}, nil
}

// Engine returns the engine, which runs during Start. Queue no events of the contexts of
// applications.
func (m *Manager) Engine() *rsync.Engine { return m.engine }

// Start runs the engine and the manager until ctx ends. It logs starts, ends and failures of
// rollouts with the logger of ctx. It can be called once.
func (m *Manager) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	if m.ctx != nil {
		m.mu.Unlock()
		return fmt.Errorf("%w: Start was called before", rsync.ErrInvalidInput)
	}
	m.ctx = ctx
	for _, w := range m.workers {
		m.group.Go(func() { w.run(m.ctx) })
	}
	m.mu.Unlock()
	err := m.engine.Start(ctx)
	cancel() // also if the engine was started before
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.group.Wait()
	return err
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
	switch p, err := m.Progress(ctx, application, r.Wanted); {
	case err != nil && !errors.Is(err, rsync.ErrNotFound):
		return nil, err
	case p.LastRollout != nil:
		return m.engine.RolloutStatus(ctx, *p.LastRollout)
	}
	return nil, fmt.Errorf("a rollout of the application %s: %w", application, rsync.ErrNotFound)
}

// lastRollout returns the rollout that led to a revision. It returns nil after a later event that is
// neither a rollout nor an automatic rollback.
func lastRollout(s *rsync.Status) *rsync.EventRef {
	isBack := func(e rsync.Element) bool {
		ref := rsync.EventRef{AppContextID: s.ID, Seq: e.Seq}
		return e.Event == rsync.UpdateDelete || slices.ContainsFunc(s.Queue, func(of rsync.Element) bool {
			return of.Rollback != nil && *of.Rollback == ref
		})
	}
	for _, e := range slices.Backward(s.Queue) {
		if e.Rollout {
			return &rsync.EventRef{AppContextID: s.ID, Seq: e.Seq}
		}
		if !isBack(e) {
			break
		}
	}
	return nil
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

// Settled returns when the target of an application is reached, and no newer one waits. It also
// returns for an application without a target. The error is that of ctx, with the last status.
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
