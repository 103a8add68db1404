// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Engine works on the AppContexts in a store. All methods may be called from any goroutine, and those that queue or read work
// whether the engine is started or not: an engine that is not leaves the work to others on the same store.
type Engine struct {
	store      store.Store
	connectors connector.Connectors
	options    Options
	metrics    *metrics

	mu      sync.Mutex
	started bool
	session *session // the one that works now, or nil
	ready   chan struct{}
	failure error // why there is no session
}

// New returns an engine. It starts nothing. It returns ErrInvalidInput for options that cannot be.
func New(s store.Store, connectors connector.Connectors, options Options) (*Engine, error) {
	if s == nil || connectors == nil {
		return nil, fmt.Errorf("%w: rsync.New needs a store and connectors", ErrInvalidInput)
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	e := &Engine{store: s, connectors: connectors, options: options.withDefaults(), ready: make(chan struct{}), failure: errNotStarted}
	m, err := newMetrics(e)
	if err != nil {
		return nil, err
	}
	e.metrics = m
	return e, nil
}

// Start works until ctx ends, and returns nil when all that it began has ended. It can be called once. What is under way then
// is taken up by other engines on the store at once, or by the next start.
//
// When the engine loses its lease, because the store did not answer or the process was frozen, it drops all it does and begins
// anew with another lease.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	if e.started {
		e.mu.Unlock()
		return fmt.Errorf("%w: Start was called before", ErrInvalidInput)
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
		klog.FromContext(ctx).Error(err, "The session of the rsync engine ended, another one begins", "engine", e.options.Name)
		e.metrics.sessionLost()
		e.sleep(ctx, min(e.options.Backoff.delay(attempt), e.options.LeaseTTL))
	}
	return nil
}

var errNotStarted = errors.New("the engine is not started")

// Ready is closed when the engine has its first lease, and so works.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Healthy returns nil while the engine has a lease, else why it has none: it is not started, has ended, or the store does not
// answer. It asks the store nothing; an engine that is cut off knows within [Options].LeaseTTL.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.session; s != nil {
		return context.Cause(s.ctx)
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

func (e *Engine) current() *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

// txn counts transactions.
func (e *Engine) txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	result, err := e.store.Txn(ctx, compares, ops)
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
