// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

// Run runs an engine, its journal, its presence and further loops until ctx ends, and then ends the
// watches of the cache. It refuses further writes before the engine drains the outbox.
func Run[R cache.Record](
	ctx context.Context, e *engine.Engine, s *cache.Cache[R], j *journal.Journal, p *Presence,
	more ...func(context.Context),
) error {
	defer j.Limit(ctx)()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		s.Lock()
		s.Seal()
		s.Unlock()
		p.leave()
		stop()
	})()
	var group sync.WaitGroup
	for _, f := range append(more, p.run) {
		group.Go(func() { f(serving) })
	}
	err := e.Start(serving)
	stop()
	group.Wait()
	if err == nil {
		j.Finish(ctx)
		s.Lock()
		s.Close()
		s.Unlock()
	}
	return err
}

// Every returns a loop that calls f at each interval, or does nothing if the interval is not
// positive.
func Every(c clock.WithTicker, interval time.Duration, f func()) func(context.Context) {
	return func(ctx context.Context) {
		if interval <= 0 {
			return
		}
		ticker := c.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				f()
			}
		}
	}
}

// Live returns the health of a client that has stopped, otherwise nil. Before Start, which a
// manager may call late, it returns nil too.
func Live(closed bool, health error) error {
	if closed {
		return health
	}
	return nil
}

// CheckReady returns the error of a readiness check: health, or that ready is still open.
func CheckReady(health error, ready <-chan struct{}) error {
	if health != nil {
		return health
	}
	select {
	case <-ready:
		return nil
	default:
		return errors.New("connected, but the broker has not acknowledged the first requests yet")
	}
}
