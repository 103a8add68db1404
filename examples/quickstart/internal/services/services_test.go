// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/services"
)

// link is a connection with a state that the test sets.
type link struct {
	ready chan struct{}
	err   atomic.Pointer[error]
}

func newLink(err error) *link {
	l := &link{ready: make(chan struct{})}
	l.set(err)
	return l
}

func (l *link) set(err error)          { l.err.Store(&err) }
func (l *link) Ready() <-chan struct{} { return l.ready }
func (l *link) Healthy() error         { return *l.err.Load() }

var errRefused = errors.New("connection refused")

func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := services.New(t.Context(), "mqtt://somewhere:1883", 10*time.Second)
		defer g.Stop()
		a, b := newLink(nil), newLink(errRefused)
		close(a.ready)
		err := g.Reach(ctx, a, b)
		if !errors.Is(err, services.ErrNotReached) ||
			err.Error() != "broker mqtt://somewhere:1883 not reached for 10s: connection refused" {
			t.Errorf("one is not ready: %v", err)
		}
		time.AfterFunc(9*time.Second, func() { close(b.ready) })
		if err := g.Reach(ctx, a, b); err != nil {
			t.Errorf("both are ready in time: %v", err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := services.New(t.Context(), "mqtt://somewhere:1883", 10*time.Second)
		defer g.Stop()
		l := newLink(nil)
		g.Watch(l)
		l.set(errRefused)
		<-time.After(9 * time.Second) // fake time
		l.set(nil)
		<-time.After(time.Second)
		l.set(errRefused)
		<-time.After(9 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("failed, although it came back between: %v", context.Cause(ctx))
		}
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, errRefused) ||
			!strings.Contains(err.Error(), "mqtt://somewhere:1883 not reached for 10s") {
			t.Errorf("failed with %v", err)
		}
	})
}

func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		g, ctx := services.New(parent, "mqtt://somewhere:1883", 10*time.Second)
		var ended atomic.Bool
		g.Go(func(ctx context.Context) error {
			<-ctx.Done()
			ended.Store(true)
			return nil
		})
		cancel()
		synctest.Wait()
		if ctx.Err() == nil || ended.Load() {
			t.Errorf("after the parent's end: context %v, service ended %v; want the service to go on", ctx.Err(), ended.Load())
		}
		g.Stop()
		if !ended.Load() {
			t.Error("Stop returned before the service had ended")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g, ctx := services.New(t.Context(), "mqtt://somewhere:1883", 10*time.Second)
		defer g.Stop()
		g.Go(func(context.Context) error { return errRefused })
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, errRefused) {
			t.Errorf("a service failed, but the cause is %v", err)
		}
	})
}

func TestReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		g, ctx := services.New(parent, "mqtt://somewhere:1883", 10*time.Second)
		defer g.Stop()
		l := newLink(nil)
		g.Watch(l)
		g.Go(func(context.Context) error { return errors.New("a service failed") })
		cancel()
		<-time.After(time.Minute) // fake time
		if ctx.Err() == nil || g.Reachable().Err() != nil {
			t.Fatalf("after the parent's end and a failure: %v, %v; want time to clean up", ctx.Err(),
				context.Cause(g.Reachable()))
		}
		l.set(errRefused)
		<-g.Reachable().Done()
		if err := context.Cause(g.Reachable()); !errors.Is(err, services.ErrNotReached) || !errors.Is(err, errRefused) {
			t.Errorf("ended with %v", err)
		}
	})
}
