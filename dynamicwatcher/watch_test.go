// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// trigger returns the trigger, and fails unless there is exactly one call with one trigger.
func (x *fixture) trigger(calls []call) dynamicwatcher.Trigger {
	x.t.Helper()
	if len(calls) != 1 || len(calls[0].Triggers) != 1 {
		x.t.Fatalf("the calls are %+v, not one with one trigger", calls)
	}
	return calls[0].Triggers[0]
}

func TestCreateUpdateAndDeleteReachWatcher(t *testing.T) {
	for name, options := range map[string]dynamicwatcher.Options{"metadata": {}, "whole objects": {EnableCache: true}} {
		t.Run(name, func(t *testing.T) {
			script(t, options, func(x *fixture) {
				x.watch(secretA)
				x.state(dynamicwatcher.StateActive)
				for _, step := range []struct {
					want dynamicwatcher.TriggerType
					do   func() string
				}{
					{dynamicwatcher.TriggerAdded, func() string { return x.put(secretA) }},
					{dynamicwatcher.TriggerModified, func() string { return x.put(secretA, "app", "x") }},
					{dynamicwatcher.TriggerDeleted, func() string { x.remove(secretA); return x.api.Version() }},
					{dynamicwatcher.TriggerAdded, func() string { return x.put(secretA) }},
				} {
					version := step.do()
					got := x.trigger(x.expect(string(step.want), p))
					want := dynamicwatcher.Trigger{Watched: secretA, Type: step.want, Namespace: "ns", Name: "a",
						ResourceVersion: version}
					if got != want {
						t.Errorf("the trigger is %+v, not %+v", got, want)
					}
				}
				x.put(secretB)
				x.put(id(fakeapi.Secret, "other", "a"))
				x.put(id(fakeapi.ConfigMap, "ns", "a"))
				x.api.Bookmark()
				x.expect("others changed")
				if got := x.state(dynamicwatcher.StateActive).ResourceVersion; got != x.api.Version() {
					t.Errorf("after a bookmark the version is %s, not %s", got, x.api.Version())
				}
			})
		})
	}
}

func TestWatchSelectsOneObjectByName(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.watch(secretA)
		for _, q := range x.api.Requests() {
			if q.Verb == "discovery" {
				continue
			}
			if q.Verb != "watch" || q.Name != "a" || q.Namespace != "ns" || !q.Initial ||
				q.Path != "/api/v1/namespaces/ns/secrets" {
				t.Errorf("a request is %+v", q)
			}
		}
	})
}

func TestWatchersOfOneObjectShareItsWatch(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA)
		x.must(x.AddWatcher(p, secretA))
		x.after(time.Second)
		if got := x.trigger(x.expect("it exists", p)); got.Type != dynamicwatcher.TriggerInitial {
			t.Errorf("the trigger is %+v", got)
		}
		x.must(x.AddWatcher(q, secretA))
		if got := x.trigger(x.expect("one joins", q)); got.Type != dynamicwatcher.TriggerInitial {
			t.Errorf("the trigger is %+v", got)
		}
		x.must(x.AddWatcher(q, secretA))
		x.must(x.AddOrUpdateWatcher(q, secretA, secretA))
		x.expect("nothing is new")
		x.put(secretA)
		x.expect("it changed", p, q)
		if s := x.state(dynamicwatcher.StateActive); s.Watchers != 2 || x.GetWatchCount() != 1 {
			x.t.Fatalf("the status is %+v, with %d watches", s, x.GetWatchCount())
		}
		if got := x.WatchersOf(secretA); len(got) != 2 || got[0] != p || got[1] != q {
			t.Errorf("the watchers are %v", got)
		}
		if c := x.api.Counts(); c.Watches != 1 || c.Streams != 1 {
			x.t.Fatalf("the server has seen %+v", c)
		}
		x.must(x.RemoveWatcher(p))
		x.put(secretA)
		x.expect("p is removed", q)
		x.must(x.AddOrUpdateWatcher(q))
		x.after(0)
		if c := x.api.Counts(); c.Streams != 0 || x.GetWatchCount() != 0 {
			x.t.Fatalf("no watcher is left, but the server counts %+v", c)
		}
		if got := x.WatchersOf(secretA); len(got) != 0 || len(x.WatchesOf(q)) != 0 {
			t.Errorf("the watchers are %v, and q watches %v", got, x.WatchesOf(q))
		}
		x.put(secretA)
		x.after(time.Minute)
		x.expect("no watcher is left")
	})
}

func TestAddOrUpdateWatcherReplacesWatchedObjects(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.watch(secretA)
		x.must(x.AddOrUpdateWatcher(p, secretB, matching(fakeapi.ConfigMap, "", "app=x")))
		x.after(time.Second)
		if got := x.WatchesOf(p); len(got) != 2 || got[0].Kind != "ConfigMap" || got[1] != secretB {
			x.t.Fatalf("p watches %v", got)
		}
		x.put(secretA)
		x.expect("it is watched no more")
		x.put(secretB)
		x.expect("it is watched now", p)
	})
}

func TestAddWatcherAtReconcilesForOtherVersions(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		prepare      func(x *fixture) (seen string)
		want         []dynamicwatcher.ObjectIdentifier
	}{
		{"as seen", "nothing is new", func(x *fixture) string { return x.put(secretA) }, nil},
		{"changed", "it is at another version", func(x *fixture) string { defer x.put(secretA); return x.put(secretA) },
			[]dynamicwatcher.ObjectIdentifier{p}},
		{"deleted", "it was deleted", func(x *fixture) string { defer x.remove(secretA); return x.put(secretA) },
			[]dynamicwatcher.ObjectIdentifier{p}},
		{"not seen", "there was none and is none", func(x *fixture) string { return "" }, nil},
	} {
		for _, joins := range []bool{false, true} {
			t.Run(test.name+" joins="+strconv.FormatBool(joins), func(t *testing.T) {
				script(t, dynamicwatcher.Options{}, func(x *fixture) {
					seen := test.prepare(x)
					if joins {
						x.must(x.AddWatcher(q, secretA))
						x.after(time.Second)
						x.r.take()
					}
					x.must(x.AddWatcherAt(p, secretA, seen))
					x.after(time.Second)
					x.expect(test.reason, test.want...)
				})
			})
		}
	}
}

// TestWatchBeginsAtSeenVersion checks that a watch does not begin before a state that its watchers
// have seen or that it has delivered.
func TestWatchBeginsAtSeenVersion(t *testing.T) {
	asked := func(x *fixture) (versions []string) {
		for _, r := range x.api.Requests() {
			if r.Verb == "watch" && r.Kind == fakeapi.Secret {
				versions = append(versions, r.Version)
			}
		}
		return versions
	}
	for _, consolidate := range []*dynamicwatcher.ConsolidateOptions{nil, {MinObjects: 1}} {
		t.Run(fmt.Sprintf("consolidate=%t", consolidate != nil), func(t *testing.T) {
			script(t, dynamicwatcher.Options{Consolidate: consolidate}, func(x *fixture) {
				x.must(x.AddWatcherAt(p, secretA, x.put(secretA)))
				seen := x.put(secretB)
				x.must(x.AddWatcherAt(p, secretB, seen))
				x.after(5 * time.Second)
				x.expect("nothing is new")
				if got := asked(x); !slices.Contains(got, seen) || slices.Contains(got, "0") {
					t.Errorf("the watches were to begin at versions %q, want %s", got, seen)
				}
			})
			script(t, dynamicwatcher.Options{Consolidate: consolidate}, func(x *fixture) {
				x.put(secretA)
				x.faulty("watch", fakeapi.Fault{Ending: fakeapi.Expired, After: 2})
				x.must(x.AddWatcher(p, secretA))
				x.after(10 * time.Second)
				x.expect("it exists", p)
				if got := asked(x); len(got) < 2 || got[0] != "0" || slices.Contains(got[1:], "0") {
					t.Errorf("the watch was to begin at versions %q, want any for the first only", got)
				}
			})
		})
	}
	for _, seen := range []string{"999999", "no-number"} {
		t.Run(seen, func(t *testing.T) {
			script(t, dynamicwatcher.Options{}, func(x *fixture) {
				x.put(secretA)
				x.must(x.AddWatcherAt(p, secretA, seen))
				x.after(time.Minute)
				x.expect("it is at another version", p)
				x.state(dynamicwatcher.StateActive)
			})
		})
	}
}

// TestObjectSeenAheadOfWatchIsNotDeleted checks an object that a watcher has seen, but that the
// watch of another watcher has not delivered yet. It is not reported as deleted.
func TestObjectSeenAheadOfWatchIsNotDeleted(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.faulty("watch", fakeapi.Fault{Lag: time.Second})
		x.must(x.AddWatcher(q, secretA))
		x.after(5 * time.Second)
		x.r.take()
		x.must(x.AddWatcherAt(p, secretA, x.put(secretA)))
		x.after(5 * time.Second)
		for _, c := range x.r.take() {
			if got := c.Triggers[0].Type; got == dynamicwatcher.TriggerDeleted {
				t.Errorf("%s: the trigger is %+v", c.Watcher.Name, c.Triggers)
			}
		}
	})
}

func TestSelectorWatchesMatchingObjects(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		x.put(secretA, "app", "x")
		x.must(x.AddOrUpdateWatcher(p, matching(fakeapi.Secret, "ns", "app=x")))
		x.must(x.AddOrUpdateWatcher(q, matching(fakeapi.Secret, "", "app in (x,y)")))
		x.after(time.Second)
		x.expect("it exists", p, q)
		x.put(secretB)
		x.expect("it does not match")
		x.put(secretB, "app", "x")
		for _, c := range x.expect("it begins to match", p, q) {
			if got := c.Triggers[0]; got.Type != dynamicwatcher.TriggerAdded || got.Name != "b" || got.Namespace != "ns" {
				t.Errorf("the trigger is %+v", got)
			}
		}
		x.put(secretB, "app", "y")
		for _, c := range x.expect("it matches one only", p, q) {
			want := map[string]dynamicwatcher.TriggerType{"p": dynamicwatcher.TriggerDeleted,
				"q": dynamicwatcher.TriggerModified}[c.Watcher.Name]
			if got := c.Triggers[0]; got.Type != want {
				t.Errorf("the trigger of %s is %+v", c.Watcher.Name, got)
			}
		}
		x.put(id(fakeapi.Secret, "other", "a"), "app", "x")
		x.expect("another namespace", q)
		if n := x.GetWatchCount(); n != 2 {
			t.Errorf("%d watches for two selectors", n)
		}
	})
}

func TestDisableInitialReconcile(t *testing.T) {
	script(t, dynamicwatcher.Options{DisableInitialReconcile: true}, func(x *fixture) {
		x.put(secretA)
		x.must(x.AddWatcher(p, secretA))
		x.after(time.Second)
		x.must(x.AddWatcher(q, secretA))
		x.after(time.Second)
		x.expect("nothing has changed")
		x.put(secretA)
		x.expect("it changed", p, q)
	})
}

func TestWaitForSyncWaitsForFirstList(t *testing.T) {
	script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
		x.must(x.WaitForSync(x.t.Context(), p)) // p watches nothing
		x.faulty("watch", fakeapi.Fault{Delay: time.Second})
		began := time.Now()
		x.must(x.AddOrUpdateWatcher(p, secretA, secretB, widgetA))
		x.must(x.WaitForSync(x.t.Context(), p))
		if d := time.Since(began); d != time.Second {
			t.Errorf("it took %v, not the second of the server", d)
		}
		x.faulty("watch", fakeapi.Fault{Hang: true})
		x.must(x.AddWatcher(q, id(fakeapi.ConfigMap, "ns", "a")))
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
		defer cancel()
		if err := x.WaitForSync(ctx, q); err == nil || ctx.Err() == nil {
			t.Errorf("a hanging watch is in sync: %v", err)
		}
	})
}

func TestWaitForSyncReturnsRefusal(t *testing.T) {
	script(t, dynamicwatcher.Options{}, func(x *fixture) {
		refusals := 0
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault {
			if refusals++; q.Verb == "watch" && refusals%2 == 0 {
				return fakeapi.Fault{Status: 403}
			}
			return fakeapi.Fault{Status: map[bool]int{true: 503}[q.Verb == "watch"]}
		})
		x.must(x.AddWatcher(p, secretA))
		for range 10 {
			if err := x.WaitForSync(x.t.Context(), p); !apierrors.IsForbidden(err) {
				x.t.Fatalf("what is refused, or fails otherwise, is in sync: %v", err)
			}
			x.after(100 * time.Millisecond)
		}
	})
}
