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
	"github.com/spokewire/sdk-go/dynamicwatcher/internal/fakeapi"
)

func TestMinInterval(t *testing.T) {
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
		x.expect("after a time of rest it is told at once", p)
	})
}

// TestMinIntervalOfReconcilerThatAddsAnew checks that MinInterval also applies to a reconciler that
// removes its objects or its watcher and adds them again.
func TestMinIntervalOfReconcilerThatAddsAnew(t *testing.T) {
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

func TestMaxDelay(t *testing.T) {
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

func TestTriggersFrom(t *testing.T) {
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
		if a, b := calls[0].Triggers[0], calls[0].Triggers[1]; a.Watched != secretA || a.Type != dynamicwatcher.TriggerDeleted || b.Watched != secretB || b.Type != dynamicwatcher.TriggerModified {
			t.Errorf("the triggers are %+v", calls[0].Triggers)
		}
	})
	if got := dynamicwatcher.TriggersFrom(t.Context()); len(got) != 0 {
		t.Errorf("without a reconcile there are triggers %v", got)
	}
}

func TestRetryHasTriggersOfFailure(t *testing.T) {
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

func TestResults(t *testing.T) {
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
		{"a terminal error", func() (reconcile.Result, error) { return reconcile.Result{}, reconcile.TerminalError(failed) }, time.Hour, 0, 0, 0},
		{"after a while", func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Minute}, nil }, time.Hour + time.Second, 60, 60, 0},
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

func TestRateLimiterOfUser(t *testing.T) {
	options := dynamicwatcher.Options{RateLimiter: workqueue.NewTypedItemFastSlowRateLimiter[dynamicwatcher.ObjectIdentifier](time.Minute, time.Minute, 1)}
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

func TestRemovalAndShutdownInEveryState(t *testing.T) {
	for _, test := range []struct {
		state dynamicwatcher.State
		name  string
		reach func(x *fixture)
	}{
		{dynamicwatcher.StateEstablishing, "the server hangs", func(x *fixture) {
			x.must(x.RemoveWatcher(p))
			x.faulty("watch", fakeapi.Fault{Hang: true})
			x.must(x.AddWatcher(p, widgetA))
		}},
		{dynamicwatcher.StateActive, "all is well", func(x *fixture) {}},
		{dynamicwatcher.StateBackoff, "the server fails", func(x *fixture) { x.faulty("watch", fakeapi.Fault{Status: 500}) }},
		{dynamicwatcher.StateBackoff, "the server is away", func(x *fixture) { x.api.Stop() }},
		{dynamicwatcher.StateNoAccess, "no access", func(x *fixture) { x.faulty("watch", fakeapi.Fault{Status: 403}) }},
		{dynamicwatcher.StatePendingKind, "the kind is gone", func(x *fixture) { x.api.DeleteCRD(widget, "widgets") }},
		{dynamicwatcher.StatePendingKind, "and lookups hang", func(x *fixture) {
			x.api.DeleteCRD(widget, "widgets")
			x.after(time.Second)
			x.faulty("discovery", fakeapi.Fault{Hang: true})
		}},
	} {
		for _, removal := range []bool{true, false} {
			t.Run(test.name+" removal="+strconv.FormatBool(removal), func(t *testing.T) {
				script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
					x.api.CreateCRD(widget, "widgets", true, 0)
					x.after(time.Second)
					x.watch(widgetA)
					x.after(10 * time.Second)
					test.reach(x)
					if test.state != dynamicwatcher.StateActive && test.state != dynamicwatcher.StateEstablishing {
						x.api.Disconnect()
					}
					x.after(5 * time.Second)
					x.state(test.state)
					if !removal {
						return // the fixture checks the time of the shutdown
					}
					began := time.Now()
					x.must(x.RemoveWatcher(p))
					if d := time.Since(began); d != 0 || x.GetWatchCount() != 0 {
						t.Errorf("the removal took %v and left %d watches", d, x.GetWatchCount())
					}
					x.after(0)
					if n := x.api.Counts().Streams; n != 0 {
						t.Errorf("%d streams are left", n)
					}
				})
			})
		}
	}
}

// TestHangingRequest checks that a hanging request delays no other request.
func TestHangingRequest(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Hang: q.Name == "0"} })
		for i := range 300 {
			x.must(x.AddWatcher(p, id(fakeapi.Secret, "ns", strconv.Itoa(i))))
		}
		x.after(10 * time.Millisecond)
		active := 0
		for _, s := range x.Status() {
			if s.State == dynamicwatcher.StateActive {
				active++
			}
		}
		if active != 299 {
			t.Errorf("%d watches are active beside the one that hangs", active)
		}
	})
}

// TestSilentServer checks that a request without an answer is ended after two minutes, and retried.
// Other requests are not affected.
func TestSilentServer(t *testing.T) {
	for _, test := range []struct {
		name, verb string
		plain      bool
		fault      fakeapi.Fault
	}{
		{"no answer", "watch", false, fakeapi.Fault{Hang: true}},
		{"no answer to a list", "list", true, fakeapi.Fault{Hang: true}},
		{"no answer after a list", "watch", true, fakeapi.Fault{Hang: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.api.Plain = test.plain
				x.api.Hook(func(r fakeapi.Request) fakeapi.Fault {
					if r.Verb == test.verb && r.Name == "a" && r.Initial != test.plain {
						return test.fault
					}
					return fakeapi.Fault{}
				})
				x.put(secretA)
				x.put(secretB)
				x.must(x.AddOrUpdateWatcher(q, secretB))
				x.after(time.Second)
				x.expect("it exists", q)
				x.must(x.AddOrUpdateWatcher(p, secretA))
				x.after(2*time.Minute + time.Second)
				if s := x.Status()[0]; s.State == dynamicwatcher.StateActive || s.Restarts != 1 {
					t.Errorf("after two minutes the status is %+v", s)
				}
				x.api.Hook(nil)
				x.after(2 * time.Minute)
				x.expect("it exists", p)
				x.after(time.Hour) // without any change
				if s := x.Status(); s[0].State != dynamicwatcher.StateActive || s[0].Restarts != 2 || s[1].Restarts != 0 {
					t.Errorf("an hour later the status is %+v", s)
				}
			})
		})
	}
}

// TestNoInitialBookmark checks a server that does not end its initial events. The objects are
// listed after 10 s, and other group versions still use watches.
func TestNoInitialBookmark(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"no events":              {Ending: fakeapi.Silence},
		"an object, and no more": {Ending: fakeapi.Silence, After: 1},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				lists := 0
				x.api.Hook(func(r fakeapi.Request) fakeapi.Fault {
					switch {
					case r.Verb == "watch" && r.Initial:
						return fault
					case r.Verb == "list":
						lists++
					}
					return fakeapi.Fault{}
				})
				x.put(secretA)
				x.must(x.AddOrUpdateWatcher(p, secretA))
				x.after(9 * time.Second)
				x.expect("nothing yet")
				x.after(2 * time.Second)
				x.expect("it exists", p)
				x.put(secretA)
				x.after(time.Second)
				x.expect("it has changed", p)
				x.must(x.AddOrUpdateWatcher(q, secretB))
				x.after(time.Second)
				if s := x.Status(); s[0].State != dynamicwatcher.StateActive || s[1].State != dynamicwatcher.StateActive || lists != 2 {
					t.Errorf("%d lists, and the status is %+v", lists, s)
				}
			})
		})
	}
}

func TestNothingQueuedAfterShutdown(t *testing.T) {
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

// TestRemovedWhileQueued checks that a removed watcher is not reconciled for its queued triggers. A
// watcher that is added again is reconciled for later events.
func TestRemovedWhileQueued(t *testing.T) {
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
				x.expect("it is back", p)
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
