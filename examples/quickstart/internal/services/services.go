// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package services runs the parts of the quickstart concurrently, and stops them in order.
package services

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Connection is a source or an agent of the SDK.
type Connection interface {
	// Ready returns a channel that is closed at the first connection.
	Ready() <-chan struct{}
	// Healthy returns nil while it is connected, and otherwise the reason.
	Healthy() error
}

// checkEvery is the interval between checks of connections.
const checkEvery = 250 * time.Millisecond

// KeepAlive is the keep-alive interval of the transports. It is short, to detect a hanging broker
// soon.
const KeepAlive = 4 * time.Second

// Group is a set of running services.
type Group struct {
	broker string
	grace  time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	fail   context.CancelCauseFunc
	// reachable ends when the broker is lost or the group stops.
	reachable context.Context
	lost      context.CancelCauseFunc
	wg        sync.WaitGroup
}

// New returns an empty group, and the context for the calls that use its services. The broker may
// be unreachable for a grace period. The context ends with parent, or when a service fails, with
// the error of the service as its cause. The services themselves run until Stop, which leaves time
// for the cleanup.
func New(parent context.Context, broker string, grace time.Duration) (*Group, context.Context) {
	g := &Group{broker: broker, grace: grace}
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(parent))
	run, fail := context.WithCancelCause(parent)
	g.fail = fail
	g.reachable, g.lost = context.WithCancelCause(context.WithoutCancel(parent))
	return g, run
}

// Go runs a service: a Start method that blocks until its context ends.
func (g *Group) Go(start func(context.Context) error) {
	g.wg.Go(func() {
		err := start(g.ctx)
		if errors.Is(err, ErrNotReached) {
			g.lost(err)
		}
		if err != nil {
			g.fail(err)
		}
	})
}

// Reachable returns the context for the cleanup. It outlives the parent. It ends when the group
// stops, or when a watched connection was lost for the grace period. The error of the connection is
// then its cause.
func (g *Group) Reachable() context.Context { return g.reachable }

// Stop ends all services and waits for them.
func (g *Group) Stop() {
	g.fail(context.Canceled)
	g.lost(context.Canceled)
	g.cancel()
	g.wg.Wait()
}

// Reach waits until all connections are ready. After the grace period, it returns an error with the
// broker and the reason.
func (g *Group) Reach(ctx context.Context, connections ...Connection) error {
	timeout := time.NewTimer(g.grace)
	defer timeout.Stop()
	for _, c := range connections {
		select {
		case <-c.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return g.notReached(c.Healthy())
		}
	}
	return nil
}

// Watch makes the group fail when a connection was lost for the grace period.
func (g *Group) Watch(connections ...Connection) {
	g.Go(func(ctx context.Context) error {
		ticker := time.NewTicker(checkEvery)
		defer ticker.Stop()
		away := make([]time.Time, len(connections)) // since when; zero while connected
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-ticker.C:
				for i, c := range connections {
					err := c.Healthy()
					switch {
					case err == nil:
						away[i] = time.Time{}
					case away[i].IsZero():
						away[i] = now
					case now.Sub(away[i]) >= g.grace:
						return g.notReached(err)
					}
				}
			}
		}
	})
}

// ErrNotReached is in the error for a broker that cannot be reached.
var ErrNotReached = errors.New("not reached")

func (g *Group) notReached(reason error) error {
	if reason == nil {
		return fmt.Errorf("broker %s %w for %v", g.broker, ErrNotReached, g.grace)
	}
	return fmt.Errorf("broker %s %w for %v: %w", g.broker, ErrNotReached, g.grace, reason)
}
