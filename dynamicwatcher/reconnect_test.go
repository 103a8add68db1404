// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestReconnectReportsOnlyChangedObjects(t *testing.T) {
	for _, test := range []struct {
		name     string
		breaks   func(x *fixture)
		recovers func(x *fixture)
	}{
		{"streams cut", func(x *fixture) { x.api.Disconnect() }, func(x *fixture) {}},
		{"server unreachable", func(x *fixture) { x.api.Stop(); x.after(time.Minute) }, func(x *fixture) { x.api.Start() }},
		{"history compacted", func(x *fixture) { x.api.Compact(); x.api.Disconnect() }, func(x *fixture) {}},
		{"server overloaded", func(x *fixture) {
			x.faulty("", fakeapi.Fault{Status: 429, RetryAfter: 2})
			x.api.Disconnect()
			x.after(10 * time.Second)
		}, func(x *fixture) { x.api.Hook(nil) }},
		{"responses aborted", func(x *fixture) {
			x.faulty("", fakeapi.Fault{Abort: true})
			x.api.Disconnect()
			x.after(10 * time.Second)
		}, func(x *fixture) { x.api.Hook(nil) }},
		{"streams cut at once", func(x *fixture) {
			x.faulty("", fakeapi.Fault{Ending: fakeapi.Cut})
			x.api.Disconnect()
			x.after(10 * time.Second)
		}, func(x *fixture) { x.api.Hook(nil) }},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(test.name+" watchList="+strconv.FormatBool(!plain), func(t *testing.T) {
				script(t, dynamicwatcher.Options{}, func(x *fixture) {
					x.api.Plain = plain
					x.put(secretA)
					x.put(secretB)
					x.watch(secretA)
					x.must(x.AddWatcher(q, secretB))
					x.after(10 * time.Second)
					x.r.take()
					test.breaks(x)
					test.recovers(x)
					x.after(time.Minute)
					x.expect("nothing has changed")

					test.breaks(x)
					x.put(secretA)
					test.recovers(x)
					x.after(time.Minute)
					if got := x.trigger(x.expect("one has changed", p)); got.Watched != secretA ||
						got.Type != dynamicwatcher.TriggerModified {
						t.Errorf("the trigger is %+v", got)
					}
					test.breaks(x)
					x.remove(secretB)
					test.recovers(x)
					x.after(time.Minute)
					if got := x.trigger(x.expect("one is gone", q)); got.Type != dynamicwatcher.TriggerDeleted {
						t.Errorf("the trigger is %+v", got)
					}
				})
			})
		}
	}
}

func TestObjectRecreatedDuringInterruption(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA)
		x.watch(secretA)
		x.after(10 * time.Second)
		x.api.Stop()
		x.remove(secretA)
		version := x.put(secretA)
		x.api.Start()
		x.after(time.Minute)
		if got := x.trigger(x.expect("it is another", p)); got.Type != dynamicwatcher.TriggerAdded ||
			got.ResourceVersion != version {
			t.Errorf("the trigger of a recreated object is %+v", got)
		}
	})
}

// TestObjectCreatedAndDeletedDuringInterruption checks an object that is created and deleted during
// an interruption. Only watchers that may have seen the object are notified.
func TestObjectCreatedAndDeletedDuringInterruption(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(id(fakeapi.ConfigMap, "ns", "a"))
		x.watch(secretA, id(fakeapi.ConfigMap, "ns", "a"))
		x.must(x.AddWatcher(q, secretA))
		x.after(time.Minute)
		x.api.Bookmark()
		x.after(10 * time.Second)
		x.r.take()
		x.api.Disconnect()
		x.after(time.Minute)
		x.expect("no reconcile since the bookmark")
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
			return fakeapi.Fault{Delay: map[string]time.Duration{"Secret": time.Minute}[q.Kind.Kind]}
		})
		x.api.Disconnect()
		x.after(10 * time.Second)
		x.put(secretA)
		x.put(id(fakeapi.ConfigMap, "ns", "a"))
		x.expect("another object has changed", p)
		x.remove(secretA)
		x.after(time.Minute)
		if got := x.trigger(x.expect("p was reconciled meanwhile, q was not", p)); got.Watched != secretA ||
			got.Type != dynamicwatcher.TriggerDeleted {
			t.Errorf("the trigger is %+v", got)
		}
	})
}

func TestNotifyAlwaysReconcilesAfterReconnect(t *testing.T) {
	script(t, dynamicwatcher.Options{Reconnect: dynamicwatcher.NotifyAlways}, func(x *fixture) {
		x.put(secretA)
		x.watch(secretA)
		x.after(10 * time.Second)
		x.api.Disconnect()
		x.after(time.Second)
		if got := x.trigger(x.expect("the watch was interrupted", p)); got.Type != dynamicwatcher.TriggerResumed {
			t.Errorf("the trigger is %+v", got)
		}
	})
}

func TestServerRestoredFromBackup(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA)
		restore := x.api.Snapshot()
		x.watch(secretA)
		x.after(10 * time.Second)
		x.put(secretA)
		x.expect("it changed", p)
		restore()
		x.after(time.Minute)
		x.expect("it is what it was, from before what was seen", p)
		x.state(dynamicwatcher.StateActive)
	})
}

func TestDuplicateEventsAreIgnored(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.faulty("watch", fakeapi.Fault{Duplicate: true})
		x.put(secretA)
		x.must(x.AddWatcher(p, secretA))
		x.after(time.Second)
		x.expect("it exists", p)
		x.put(secretA)
		x.after(time.Second)
		x.expect("it changed", p)
		x.remove(secretA)
		x.after(time.Second)
		x.expect("it was deleted", p)
	})
}

// TestBackoffOnFailingServer checks that the watcher backs off from a server that immediately ends
// all streams, or fails all requests.
func TestBackoffOnFailingServer(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"ended": {Ending: fakeapi.End, After: 1}, "ended at once": {Ending: fakeapi.End},
		"cut":     {Ending: fakeapi.Cut, After: 1},
		"aborted": {Abort: true}, "expired": {Ending: fakeapi.Expired}, "500": {Status: 500}, "403": {Status: 403},
		"404": {Status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.faulty("watch", fault)
				x.must(x.AddWatcher(p, secretA))
				x.after(time.Minute)
				if n := x.api.Counts().Watches; n < 4 || n > 40 {
					t.Errorf("%d requests in a minute", n)
				}
				x.api.Hook(nil)
				x.after(time.Minute)
				x.state(dynamicwatcher.StateActive)
			})
		})
	}
}

func TestBackoffOnRefusedConnections(t *testing.T) {
	for _, objects := range []int{1, 200} {
		script(t, dynamicwatcher.Options{}, func(x *fixture) {
			for i := range objects {
				x.must(x.AddWatcher(p, id(fakeapi.Secret, "ns", strconv.Itoa(i))))
			}
			x.after(10 * time.Second)
			x.api.Stop()
			before := x.api.Counts().Dials
			x.after(10 * time.Minute)
			if n := x.api.Counts().Dials - before; n < 20 || n > 100 {
				t.Errorf("%d objects: %d dials in 10 minutes", objects, n)
			}
			x.api.Start()
			x.after(15 * time.Second)
			for _, s := range x.Status() {
				if s.State != dynamicwatcher.StateActive {
					x.t.Fatalf("%d objects: the state is %+v", objects, s)
				}
			}
			x.expect("nothing has changed")
		})
	}
}

func TestShortRefusalIsNotReported(t *testing.T) {
	for _, status := range []int{401, 403, 503} {
		for _, mode := range []dynamicwatcher.AccessLost{dynamicwatcher.RetryThenNotify, dynamicwatcher.DropAndNotify} {
			script(t, dynamicwatcher.Options{AccessLost: mode}, func(x *fixture) {
				x.put(secretA)
				x.watch(secretA)
				x.after(10 * time.Second)
				x.faulty("watch", fakeapi.Fault{Status: status})
				x.api.Disconnect()
				x.after(2 * time.Second)
				x.api.Hook(nil)
				x.after(time.Minute)
				x.expect("it passed")
				x.state(dynamicwatcher.StateActive)
				x.put(secretA)
				x.expect("it changed", p)
			})
		}
	}
}

func TestLostAccessIsReportedAndRestored(t *testing.T) {
	for _, status := range []int{401, 403} {
		script(t, dynamicwatcher.Options{}, func(x *fixture) {
			x.put(secretA)
			x.watch(secretA)
			x.after(10 * time.Second)
			x.faulty("watch", fakeapi.Fault{Status: status})
			x.api.Disconnect()
			x.after(time.Minute)
			if got := x.trigger(x.expect("access is lost", p)); got.Type != dynamicwatcher.TriggerAccessLost {
				t.Errorf("the trigger is %+v", got)
			}
			if s := x.state(dynamicwatcher.StateNoAccess); s.Err == nil {
				t.Error("the status has no reason")
			}
			x.after(10 * time.Minute)
			x.expect("it was reconciled once")
			x.api.Hook(nil)
			x.after(time.Minute)
			if got := x.trigger(x.expect("access is back", p)); got.Type != dynamicwatcher.TriggerResumed {
				t.Errorf("the trigger is %+v", got)
			}
			x.state(dynamicwatcher.StateActive)
		})
	}
}

func TestDropAndNotifyRemovesObject(t *testing.T) {
	script(t, dynamicwatcher.Options{AccessLost: dynamicwatcher.DropAndNotify}, func(x *fixture) {
		x.put(secretA)
		x.put(id(fakeapi.ConfigMap, "ns", "a"))
		x.watch(secretA, id(fakeapi.ConfigMap, "ns", "a"))
		x.after(10 * time.Second)
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
			return fakeapi.Fault{Status: map[string]int{"Secret": 403}[q.Kind.Kind]}
		})
		x.api.Disconnect()
		x.after(time.Minute)
		if got := x.trigger(x.expect("access is lost", p)); got.Type != dynamicwatcher.TriggerAccessLost ||
			got.Watched != secretA {
			t.Errorf("the trigger is %+v", got)
		}
		if got := x.WatchesOf(p); len(got) != 1 || got[0].Kind != "ConfigMap" || x.GetWatchCount() != 1 {
			x.t.Fatalf("%d watches, and p watches %v", x.GetWatchCount(), got)
		}
		asked := x.api.Counts().Watches
		x.after(time.Hour)
		if n := x.api.Counts().Watches; n != asked {
			t.Errorf("%d requests for what is dropped", n-asked)
		}
		x.api.Hook(nil)
		x.must(x.AddWatcher(p, secretA))
		x.after(time.Second)
		x.expect("it is watched again", p)
	})
}
