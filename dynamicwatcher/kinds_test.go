// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

func TestWatchBeginsWhenCRDIsEstablished(t *testing.T) {
	for _, served := range []time.Duration{0, 50 * time.Millisecond, 800 * time.Millisecond} {
		script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
			x.must(x.AddOrUpdateWatcher(p, widgetA))
			x.must(x.AddOrUpdateWatcher(q, id(widget, "ns", "b")))
			x.after(time.Hour)
			for _, s := range x.Status() {
				if s.State != dynamicwatcher.StatePendingKind || s.Err == nil {
					x.t.Fatalf("the status is %+v", s)
				}
			}
			if c := x.api.Counts(); c.Streams != 1 || c.Discoveries > 200 {
				t.Errorf("in an hour of waiting, the server has seen %+v", c)
			}
			x.expect("there is no such kind")
			x.api.CreateCRD(widget, "widgets", true, served)
			x.after(served)
			x.put(widgetA)
			x.after(time.Second)
			x.expect("the kind is served for a second", p)
			x.put(widgetA)
			x.expect("it changed", p)
			if c := x.api.Counts(); c.Streams != 2 {
				t.Errorf("%d streams for two objects", c.Streams)
			}
		})
	}
}

func TestCRDDeletedAndRecreated(t *testing.T) {
	script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
		x.api.CreateCRD(widget, "widgets", true, 0)
		x.after(time.Second)
		x.put(widgetA)
		x.watch(widgetA)
		x.must(x.AddOrUpdateWatcher(q, id(widget, "ns", "b")))
		x.after(time.Minute)
		for range 5 {
			x.api.DeleteCRD(widget, "widgets")
			x.after(time.Minute)
			if got := x.trigger(x.expect("it was deleted with its kind; q has no object",
				p)); got.Type != dynamicwatcher.TriggerDeleted {
				t.Errorf("the trigger is %+v", got)
			}
			x.api.CreateCRD(widget, "widgets", true, 100*time.Millisecond)
			x.after(100 * time.Millisecond)
			x.put(widgetA)
			x.after(time.Second)
			x.expect("it was added again", p)
			x.after(10 * time.Second)
		}
	})
}

// TestCRDWithUnusualPluralRecreated checks that a kind that is created again is reported
// immediately, even if its resource name cannot be derived from the kind. The name is known from
// before.
func TestCRDWithUnusualPluralRecreated(t *testing.T) {
	data := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Data"}
	dataA := id(data, "ns", "a")
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.api.CreateCRD(data, "data", true, 0)
		x.after(time.Second)
		x.put(dataA)
		x.watch(dataA)
		x.api.DeleteCRD(data, "data")
		x.after(time.Hour)
		x.expect("it was deleted with its kind", p)
		x.api.CreateCRD(data, "data", true, 0)
		x.put(dataA)
		x.after(time.Second)
		x.expect("it was added again", p)
	})
}

// TestNewCRDIsWatchedWithoutRetryAfter checks that a new kind is watched soon. An API server that
// has just begun to serve a kind refuses watches for some milliseconds with a Retry-After of one
// second, which the watcher ignores.
func TestNewCRDIsWatchedWithoutRetryAfter(t *testing.T) {
	script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
		x.watch(widgetA)
		settled := time.Now().Add(time.Minute + 200*time.Millisecond)
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
			if q.Kind == widget && time.Now().Before(settled) {
				return fakeapi.Fault{Status: 429, RetryAfter: 1}
			}
			return fakeapi.Fault{}
		})
		x.after(time.Minute)
		x.api.CreateCRD(widget, "widgets", true, 0)
		x.put(widgetA)
		x.after(600 * time.Millisecond)
		x.expect("it is there", p)
		x.after(time.Minute)
		x.faulty("watch", fakeapi.Fault{Status: 429, RetryAfter: 3600})
		x.api.Disconnect()
		x.after(10 * time.Second)
		x.api.Hook(nil)
		x.put(widgetA, "changed", "yes")
		x.after(time.Minute)
		x.expect("an hour is too long for a server that has recovered", p)
	})
}

func TestKindsAreLookedUpOnce(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.faulty("discovery", fakeapi.Fault{Delay: time.Second})
		done := make(chan error)
		for range 50 {
			go func() { done <- x.AddWatcher(p, secretA) }()
		}
		for range 50 {
			x.must(<-done)
		}
		x.must(x.AddWatcher(p, id(fakeapi.ConfigMap, "ns", "a")))
		if n := x.api.Counts().Discoveries; n != 1 {
			t.Errorf("%d lookups of one group version", n)
		}
		x.after(11 * time.Minute)
		x.api.Disconnect()
		x.after(time.Minute)
		if n := x.api.Counts().Discoveries; n != 1 {
			t.Errorf("after a disconnect there are %d lookups", n)
		}
		x.must(x.AddWatcher(q, secretA))
		if n := x.api.Counts().Discoveries; n != 2 {
			t.Errorf("after the time to remember there are %d lookups", n)
		}
	})
}

// TestMissingKindDelaysNoOtherKind checks that the wait for a kind does not affect other kinds of
// the group version.
func TestMissingKindDelaysNoOtherKind(t *testing.T) {
	script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
		gadget := widget
		gadget.Kind = "Gadget"
		x.api.AddKind(gadget, "gadgets", true)
		x.watch(widgetA)
		x.state(dynamicwatcher.StatePendingKind)
		for range 100 {
			if _, err := x.GVKToGVR(gadget); err != nil {
				x.t.Fatal(err)
			}
			x.after(77 * time.Millisecond)
		}
	})
}

// TestMissingKindBecomesClusterScoped checks an awaited kind that turns out to be cluster-scoped.
// The given namespace is then ignored, as it is for a known kind.
func TestMissingKindBecomesClusterScoped(t *testing.T) {
	for _, exists := range []bool{true, false} {
		script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait, DisableInitialReconcile: exists},
			func(x *fixture) {
				bare := id(widget, "", "a")
				x.must(x.AddOrUpdateWatcher(p, widgetA))
				x.must(x.AddOrUpdateWatcher(q, id(widget, "other", "a"), secretA))
				x.after(time.Minute)
				if got := x.WatchersOf(widgetA); len(got) != 1 || x.GetWatchCount() != 3 {
					t.Fatalf("the watchers are %v", got)
				}
				x.api.CreateCRD(widget, "widgets", false, 10*time.Millisecond)
				x.after(10 * time.Millisecond)
				if exists {
					x.put(bare)
					x.after(time.Second)
					for _, c := range x.expect("it has come with its kind", p, q) {
						if got := c.Triggers[0]; got.Watched != bare || got.Namespace != "" || got.Type != dynamicwatcher.TriggerAdded {
							t.Errorf("the trigger is %+v", got)
						}
					}
				}
				x.after(time.Second)
				for _, o := range []dynamicwatcher.ObjectIdentifier{bare, widgetA, id(widget, "any", "a")} {
					if got := x.WatchersOf(o); len(got) != 2 || got[0] != p || got[1] != q {
						t.Errorf("the watchers of %s are %v", o, got)
					}
				}
				if got := x.WatchesOf(p); len(got) != 1 || got[0] != bare || x.GetWatchCount() != 2 {
					t.Errorf("p watches %v, of %d", got, x.GetWatchCount())
				}
				x.must(x.AddOrUpdateWatcher(p, widgetA)) // the same object
				x.after(time.Second)
				x.expect("nothing is new")
				x.put(bare, "n", "1")
				x.expect("it changed", p, q)
				x.must(x.RemoveWatcher(q))
				x.must(x.RemoveWatcher(p))
				x.after(0)
				if n := x.api.Counts().Streams; n != 0 {
					t.Errorf("%d streams are left", n)
				}
			})
	}
}

// TestTriggersSurviveChangeToClusterScope checks that the pending triggers of such an
// object are not lost.
func TestTriggersSurviveChangeToClusterScope(t *testing.T) {
	options := dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait, BatchWindow: time.Hour}
	script(t, options, func(x *fixture) {
		x.api.CreateCRD(widget, "widgets", true, 0)
		x.after(time.Second)
		x.put(widgetA)
		x.watch(widgetA)
		x.after(2 * time.Hour)
		x.r.take()
		x.api.DeleteCRD(widget, "widgets")
		x.after(time.Minute)
		x.api.CreateCRD(widget, "widgets", false, 0)
		x.after(2 * time.Hour)
		if got := x.trigger(x.expect("it was deleted", p)); got.Watched != id(widget, "", "a") ||
			got.Type != dynamicwatcher.TriggerDeleted {
			t.Errorf("the trigger is %+v", got)
		}
	})
}

// TestConsolidatedKindBecomesClusterScoped checks that many objects of such a kind share a watch.
func TestConsolidatedKindBecomesClusterScoped(t *testing.T) {
	options := consolidateEarly
	options.MissingKind = dynamicwatcher.Wait
	script(t, options, func(x *fixture) {
		for i := range 4 {
			x.must(x.AddWatcher(policy(strconv.Itoa(i)), id(widget, "ns", strconv.Itoa(i))))
		}
		x.after(time.Minute)
		x.api.CreateCRD(widget, "widgets", false, 0)
		x.after(time.Hour)
		x.shared("taken over", 4, 1)
		x.put(id(widget, "", "2"))
		x.expect("it was created", policy("2"))
	})
}

// TestClusterScopedKindBecomesNamespaced checks an object without a namespace if its kind turns out
// to be namespaced. It is not watched in all namespaces, and its watchers are notified once.
func TestClusterScopedKindBecomesNamespaced(t *testing.T) {
	bare := id(widget, "", "a")
	lost := func(x *fixture, calls []call) {
		x.t.Helper()
		if got := x.trigger(calls); got.Type != dynamicwatcher.TriggerAccessLost || got.Watched != bare {
			x.t.Errorf("the trigger is %+v", got)
		}
		invalid := new(dynamicwatcher.IdentifierError)
		if err := x.state(dynamicwatcher.StateNoAccess).Err; !errors.As(err, &invalid) || invalid.Field != "Namespace" {
			x.t.Errorf("the watch fails with %v", err)
		}
	}
	t.Run("awaited", func(t *testing.T) {
		script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
			x.must(x.AddOrUpdateWatcher(p, bare))
			x.after(time.Second)
			x.api.CreateCRD(widget, "widgets", true, 0)
			x.put(widgetA)
			x.after(time.Minute)
			lost(x, x.expect("it cannot be watched", p))
			x.put(widgetA, "n", "1")
			x.after(time.Minute)
			x.expect("it is not the object")
			x.must(x.AddOrUpdateWatcher(p, widgetA))
			x.after(time.Second)
			x.expect("it exists", p)
			x.state(dynamicwatcher.StateActive)
		})
	})
	for _, pause := range []time.Duration{0, time.Minute} {
		t.Run("back after "+pause.String(), func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.api.CreateCRD(widget, "widgets", false, 0)
				x.after(time.Second)
				x.put(bare)
				x.watch(widgetA) // cluster-scoped at first
				x.api.DeleteCRD(widget, "widgets")
				x.after(pause)
				x.api.CreateCRD(widget, "widgets", true, 0)
				x.put(widgetA)
				x.after(time.Minute)
				calls := x.r.take()
				if len(calls) != 2 || calls[0].Triggers[0].Type != dynamicwatcher.TriggerDeleted {
					t.Fatalf("the reconciles are %v", calls)
				}
				lost(x, calls[1:])
			})
		})
	}
	t.Run("consolidated", func(t *testing.T) {
		script(t, consolidateEarly, func(x *fixture) {
			x.api.CreateCRD(widget, "widgets", false, 0)
			x.after(time.Second)
			var watchers []dynamicwatcher.ObjectIdentifier
			for i := range 4 {
				watchers = append(watchers, policy(strconv.Itoa(i)))
				x.must(x.AddWatcher(watchers[i], id(widget, "", strconv.Itoa(i))))
			}
			x.after(time.Minute)
			x.shared("taken over", 4, 1)
			x.api.DeleteCRD(widget, "widgets")
			x.api.CreateCRD(widget, "widgets", true, 0)
			x.put(id(widget, "other", "0"))
			x.after(time.Hour)
			for _, c := range x.expect("they cannot be watched", watchers...) {
				if got := c.Triggers[0].Type; got != dynamicwatcher.TriggerAccessLost {
					t.Errorf("%s is told of %s", c.Watcher, got)
				}
			}
			for _, s := range x.Status() {
				if s.State != dynamicwatcher.StateNoAccess || s.Consolidated {
					t.Errorf("the status is %+v", s)
				}
			}
		})
	})
	t.Run("dropped", func(t *testing.T) {
		script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait, AccessLost: dynamicwatcher.DropAndNotify},
			func(x *fixture) {
				x.must(x.AddOrUpdateWatcher(p, bare))
				x.api.CreateCRD(widget, "widgets", true, 0)
				x.after(time.Minute)
				x.expect("it cannot be watched", p)
				if n := x.GetWatchCount(); n != 0 {
					t.Errorf("%d watches", n)
				}
			})
	})
}

// TestImpossibleKindIsRejectedWithoutRequest checks that an impossible kind causes a KindError
// without a request.
func TestImpossibleKindIsRejectedWithoutRequest(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		for reason, gvk := range map[string]schema.GroupVersionKind{
			"nothing":                {},
			"no kind":                {Version: "v1"},
			"no version":             {Kind: "ConfigMap"},
			"no version, in a group": {Group: widget.Group, Kind: widget.Kind},
			"a group in the version": {Version: "apps/v1", Kind: "Deployment"},
			"a group with a slash":   {Group: "apps/v1", Version: "v1", Kind: "Deployment"},
			"a group above":          {Group: "..", Version: "v1", Kind: "Deployment"},
		} {
			var kind *dynamicwatcher.KindError
			if _, err := x.GVKToGVR(gvk); !errors.As(err, &kind) || kind.Kind != gvk ||
				!errors.Is(err, dynamicwatcher.ErrNoVersionedResource) {
				t.Errorf("%s: %v", reason, err)
			}
		}
		if n := x.api.Counts().Discoveries; n != 0 {
			t.Errorf("%d lookups", n)
		}
	})
}
