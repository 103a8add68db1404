// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestMinIntervalLimitsReconciles(t *testing.T) {
	script(t, dynamicwatcher.Options{MinInterval: time.Second}, func(x *fixture) {
		var seen string
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			seen = x.api.Get(fakeapi.Secret, "ns", "a").GetResourceVersion()
			return reconcile.Result{}, nil
		}
		x.put(secretA)
		x.watch(secretA)
		for range 1000 {
			x.put(secretA)
			x.after(10 * time.Millisecond)
		}
		if n := len(x.r.take()); n < 9 || n > 11 {
			t.Errorf("%d reconciles in 10 s", n)
		}
		x.after(time.Second)
		if seen != x.api.Version() {
			t.Errorf("the last that was seen is %s, not %s", seen, x.api.Version())
		}
		x.after(time.Minute)
		x.r.take()
		x.put(secretA)
		x.expect("after a pause the reconcile is immediate", p)
	})
}

// TestMinIntervalAppliesToWatcherThatIsAddedAgain checks that MinInterval also applies to a
// reconciler that removes its objects or its watcher and adds them again.
func TestMinIntervalAppliesToWatcherThatIsAddedAgain(t *testing.T) {
	script(t, dynamicwatcher.Options{MinInterval: time.Second}, func(x *fixture) {
		x.put(secretA)
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			return reconcile.Result{}, errors.Join(x.AddOrUpdateWatcher(p), x.AddOrUpdateWatcher(p, secretA),
				x.RemoveWatcher(p), x.AddOrUpdateWatcher(p, secretA))
		}
		x.must(x.AddOrUpdateWatcher(p, secretA))
		x.after(10*time.Second + 100*time.Millisecond)
		if n := len(x.r.take()); n != 11 {
			t.Errorf("%d reconciles in 10 s", n)
		}
	})
}

func TestBatchWindowCollectsChanges(t *testing.T) {
	script(t, dynamicwatcher.Options{BatchWindow: 100 * time.Millisecond}, func(x *fixture) {
		x.watch(secretA, secretB)
		began := time.Now()
		for range 9 {
			x.put(secretA)
			x.put(secretB)
			x.after(10 * time.Millisecond)
		}
		x.expect("the delay is not over")
		x.after(20 * time.Millisecond)
		calls := x.expect("the delay is over", p)
		if got := calls[0]; got.At.Sub(began) != 100*time.Millisecond || len(got.Triggers) != 2 {
			t.Errorf("after %v: %+v", got.At.Sub(began), got)
		}
		x.after(time.Minute)
		x.expect("all were told as one")
	})
}

func TestTriggersFromReturnsReasons(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA)
		x.watch(secretA, secretB)
		release := make(chan struct{})
		fails := errors.New("on purpose")
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			<-release
			return reconcile.Result{}, fails
		}
		x.put(secretA)
		x.expect("it changed", p)
		x.remove(secretA)
		x.put(secretB)
		x.put(secretB)
		fails = nil
		x.after(0)
		release <- struct{}{}
		close(release)
		x.after(time.Second)
		calls := x.r.take()
		if len(calls) != 1 || len(calls[0].Triggers) != 2 {
			x.t.Fatalf("the calls are %+v", calls)
		}
		if a, b := calls[0].Triggers[0], calls[0].Triggers[1]; a.Watched != secretA ||
			a.Type != dynamicwatcher.TriggerDeleted || b.Watched != secretB || b.Type != dynamicwatcher.TriggerModified {
			t.Errorf("the triggers are %+v", calls[0].Triggers)
		}
	})
	if got := dynamicwatcher.TriggersFrom(t.Context()); len(got) != 0 {
		t.Errorf("without a reconcile there are triggers %v", got)
	}
}

func TestRetryHasTriggersOfFailedReconcile(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA)
		x.watch(secretA)
		failure := errors.New("on purpose")
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			defer func() { failure = nil }()
			return reconcile.Result{}, failure
		}
		x.put(secretA)
		x.after(time.Second)
		calls := x.r.take()
		if len(calls) != 2 {
			x.t.Fatalf("the calls are %+v, not a failure and a retry", calls)
		}
		for _, c := range calls {
			if got := x.trigger([]call{c}); got.Watched != secretA || got.Type != dynamicwatcher.TriggerModified {
				t.Errorf("the trigger is %+v", got)
			}
		}
	})
}

func TestReconcileResultsRequeue(t *testing.T) {
	failed := errors.New("on purpose")
	for _, test := range []struct {
		name     string
		do       func() (reconcile.Result, error)
		within   time.Duration
		min, max int // further calls
		triggers int // of each further call
	}{
		{"done", func() (reconcile.Result, error) { return reconcile.Result{}, nil }, time.Hour, 0, 0, 0},
		{"an error", func() (reconcile.Result, error) { return reconcile.Result{}, failed }, time.Second, 7, 8, 1},
		{"a panic", func() (reconcile.Result, error) { panic(failed) }, time.Second, 7, 8, 1},
		{"a terminal error", func() (reconcile.Result, error) { return reconcile.Result{}, reconcile.TerminalError(failed) },
			time.Hour, 0, 0, 0},
		{"after a while", func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Minute}, nil },
			time.Hour + time.Second, 60, 60, 0},
		{"again", func() (reconcile.Result, error) { return reconcile.Result{Requeue: true}, nil }, time.Second, 7, 8, 0}, //nolint:staticcheck // reconcilers may still set it
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.watch(secretA)
				x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) { return test.do() }
				x.put(secretA)
				x.expect("it changed", p)
				x.after(test.within)
				calls := x.r.take()
				if n := len(calls); n < test.min || n > test.max {
					t.Errorf("%d calls within %v", n, test.within)
				}
				for _, c := range calls {
					if len(c.Triggers) != test.triggers {
						t.Errorf("the triggers are %v", c.Triggers)
					}
				}
			})
		})
	}
}

func TestRateLimiterOption(t *testing.T) {
	options := dynamicwatcher.Options{
		RateLimiter: workqueue.NewTypedItemFastSlowRateLimiter[dynamicwatcher.ObjectIdentifier](time.Minute, time.Minute, 1),
	}
	script(t, options, func(x *fixture) {
		x.watch(secretA)
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("on purpose")
		}
		x.put(secretA)
		x.expect("it changed", p)
		x.after(59 * time.Second)
		x.expect("the limiter's delay is not over")
		x.after(time.Second)
		x.expect("it is over", p)
	})
}

func TestMaxConcurrentReconciles(t *testing.T) {
	script(t, dynamicwatcher.Options{MaxConcurrentReconciles: 3}, func(x *fixture) {
		var now, most atomic.Int32
		running := map[string]*atomic.Int32{}
		for i := range 10 {
			running[strconv.Itoa(i)] = &atomic.Int32{}
		}
		x.r.do = func(_ context.Context, watcher dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			if running[watcher.Name].Add(1) > 1 {
				t.Errorf("two reconciles of %s at once", watcher.Name)
			}
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			running[watcher.Name].Add(-1)
			return reconcile.Result{}, nil
		}
		for name := range running {
			x.must(x.AddWatcher(policy(name), secretA))
		}
		x.after(time.Second)
		for range 20 {
			x.put(secretA)
			x.after(100 * time.Millisecond)
		}
		x.after(time.Minute)
		if most.Load() != 3 {
			t.Errorf("%d reconciles at once", most.Load())
		}
		if n := len(x.r.take()); n < 11 || n > 30 {
			t.Errorf("%d reconciles of 10 watchers", n)
		}
	})
}

func TestShutdownDropsQueue(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.r.do = func(ctx context.Context, _ dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, nil
		}
		x.put(secretA)
		for i := range 10 {
			x.must(x.AddWatcher(policy(strconv.Itoa(i)), secretA))
		}
		x.after(time.Second)
		x.stop()
		if n := len(x.r.take()); n != 1 {
			t.Errorf("%d reconciles, of which one was under way", n)
		}
	})
}

// TestRemovedWatcherIsNotReconciled checks that a removed watcher is not reconciled for its queued
// triggers. A watcher that is added again is reconciled for later events.
func TestRemovedWatcherIsNotReconciled(t *testing.T) {
	failed := errors.New("on purpose")
	for _, test := range []struct {
		name  string
		queue func(x *fixture) // p
	}{
		{"a change", func(x *fixture) { x.put(secretA) }},
		{"a failure", func(x *fixture) {
			x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
				return reconcile.Result{}, failed
			}
			x.put(secretA)
		}},
		{"a result", func(x *fixture) {
			x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
				return reconcile.Result{RequeueAfter: time.Second}, nil
			}
			x.put(secretA)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{BatchWindow: 10 * time.Millisecond}, func(x *fixture) {
				x.put(secretA)
				x.watch(secretA)
				test.queue(x)
				x.after(9 * time.Millisecond)
				if test.name != "a change" {
					x.after(2 * time.Millisecond)
				}
				x.r.take()
				x.r.do = nil
				x.must(x.RemoveWatcher(p))
				x.after(time.Minute)
				x.expect("it is removed")
				x.must(x.AddWatcher(p, secretA))
				x.after(time.Second)
				x.expect("it was added again", p)
				x.put(secretA)
				x.after(time.Second)
				x.expect("it changed", p)
			})
		})
	}
	script(t, dynamicwatcher.Options{}, func(x *fixture) { // a watcher that removes itself may still request a requeue
		x.watch(secretA)
		x.r.do = func(_ context.Context, w dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			x.r.do = nil
			return reconcile.Result{RequeueAfter: time.Second}, x.RemoveWatcher(w)
		}
		x.put(secretA)
		x.expect("it changed", p)
		x.after(time.Minute)
		x.expect("it has asked for it", p)
	})
}
