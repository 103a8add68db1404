// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Engine executes the events of the AppContexts in a store. All methods may be called from any
// goroutine. Methods that queue events or read need no Start: other engines on the store then
// execute the events.
type Engine struct {
	store      store.Store
	connectors connector.Connectors
	options    Options
	metrics    *metrics

	mu      sync.Mutex
	started bool
	session *session // the current session, or nil
	ready   chan struct{}
	failure error // the reason why session is nil
}

// New returns an engine, which does nothing before Start. It returns ErrInvalidInput for invalid
// options.
func New(s store.Store, connectors connector.Connectors, options Options) (*Engine, error) {
	if s == nil {
		return nil, invalid("rsync.New needs a store")
	}
	if connectors == nil {
		return nil, invalid("rsync.New needs connectors")
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	e := &Engine{store: s, connectors: connectors, options: options.withDefaults(), ready: make(chan struct{}),
		failure: errNotStarted}
	m, err := newMetrics(e)
	if err != nil {
		return nil, err
	}
	e.metrics = m
	return e, nil
}

// Start executes events until ctx ends, and returns nil when all of its calls have ended. It can be
// called once. Other engines on the store continue unfinished events at once. Without other engines
// the next start continues them.
//
// An engine loses its lease if the store does not answer or the process is frozen. It then drops
// its work, and begins again with a new lease.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	if e.started {
		e.mu.Unlock()
		return invalid("Start was called before")
	}
	e.started = true
	e.mu.Unlock()
	defer e.metrics.unregister()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		s, err := newSession(ctx, e)
		if err == nil {
			e.setSession(s, nil)
			err = s.run(ctx)
			attempt = 1
		}
		e.setSession(nil, err)
		if ctx.Err() != nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Lost the session of the rsync engine, starting another one", "engine",
			e.options.Name)
		e.metrics.sessionLost()
		e.sleep(ctx, min(e.options.Backoff.delay(attempt), e.options.LeaseTTL))
	}
	return nil
}

var errNotStarted = errors.New("the engine is not started")

// Ready returns a channel that is closed when the engine has its first lease and begins to execute
// events.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Healthy returns nil while the engine has a lease and the store accepts its writes. Otherwise it
// returns the reason: the engine is not started or has ended, or the store does not answer or
// rejects every write. An etcd without space rejects every write. The error wraps the error of the
// store.
//
// Healthy sends nothing to the store. It fails within [Options].LeaseTTL after the store has
// stopped answering. After a failed write the engine itself writes again, first within 500 ms and
// then at least every 10 s. Healthy fails while these writes fail, and recovers with the first
// write that the store accepts.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.session; s != nil {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		return s.refusal()
	}
	return fmt.Errorf("the engine has no lease: %w", e.failure)
}

func (e *Engine) setSession(s *session, failure error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session, e.failure = s, failure
	if s != nil {
		select {
		case <-e.ready:
		default:
			close(e.ready)
		}
	}
}

func (e *Engine) isStarted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

func (e *Engine) current() *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

func isPut(op store.Op) bool { return op.Kind == store.OpKindPut }

// txn runs a transaction, counts it, and notes whether the store accepts writes.
func (e *Engine) txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	s, refusals := e.current(), 0
	if s != nil {
		refusals = s.refusals()
	}
	result, err := e.store.Txn(ctx, compares, ops)
	if s != nil {
		switch {
		// an etcd without space accepts deletions
		case err == nil && result.Succeeded && slices.ContainsFunc(ops, isPut):
			s.accepted(refusals)
		case err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrTooLarge) &&
			!errors.Is(err, store.ErrLeaseNotFound):
			s.refused()
		}
	}
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		e.metrics.transaction("error")
	case err == nil && result.Succeeded:
		e.metrics.transaction("done")
	case err == nil:
		e.metrics.transaction("conflict")
	}
	return result, err
}
