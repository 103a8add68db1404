// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// TestConsolidateWithoutAccessToNamespace checks that single watches still work for a user without
// access to the whole namespace.
func TestConsolidateWithoutAccessToNamespace(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		refuse := func(q fakeapi.Request) fakeapi.Fault {
			return fakeapi.Fault{Status: map[bool]int{true: 403}[q.Verb != "discovery" && q.Name == ""]}
		}
		x.api.Hook(refuse)
		x.watchSecrets(4)
		x.shared("single watches", 0, 4)
		x.exact(0)
		before := x.api.Counts().Lists
		x.after(10 * time.Hour)
		if n := x.api.Counts().Lists - before; n < 15 || n > 25 {
			t.Errorf("%d requests for the namespace in 10 hours", n)
		}
		x.expect("nothing has changed")
		x.state4(dynamicwatcher.StateActive)
		x.api.Hook(nil)
		x.after(time.Hour)
		x.shared("access was granted", 4, 1)
		x.expect("nothing has changed")
		x.exact(0)
		x.after(10 * time.Second)

		x.api.Hook(refuse)
		x.api.Disconnect()
		x.after(time.Second)
		x.shared("it may pass", 4, 0)
		x.after(10 * time.Second)
		x.shared("access was lost", 0, 4)
		x.state4(dynamicwatcher.StateActive)
		x.expect("nothing has changed")
		x.exact(1)

		x.api.Hook(nil)
		x.after(time.Hour)
		x.shared("access was granted again", 4, 1)
		x.faulty("", fakeapi.Fault{Status: 403})
		x.api.Disconnect()
		x.after(time.Minute)
		x.expect("all access is lost", policy("0"), policy("1"), policy("2"), policy("3"))
		x.state4(dynamicwatcher.StateNoAccess)
	})
}

// state4 checks that there are four objects in the given state.
func (x *fixture) state4(want dynamicwatcher.State) {
	x.t.Helper()
	all := x.Status()
	for _, s := range all {
		if len(all) != 4 || s.State != want {
			x.t.Fatalf("the status is %+v", all)
		}
	}
}

func TestSharedWatchReconnects(t *testing.T) {
	for _, test := range []struct {
		name     string
		breaks   func(x *fixture)
		recovers func(x *fixture)
	}{
		{"cut", func(x *fixture) { x.api.Disconnect() }, func(*fixture) {}},
		{"unreachable", func(x *fixture) { x.api.Stop(); x.after(time.Minute) }, func(x *fixture) { x.api.Start() }},
		{"compacted", func(x *fixture) { x.api.Compact(); x.api.Disconnect() }, func(*fixture) {}},
		{"overloaded", func(x *fixture) { x.faulty("", fakeapi.Fault{Status: 429, RetryAfter: 2}); x.api.Disconnect() },
			func(x *fixture) { x.after(3 * time.Second); x.api.Hook(nil) }},
		{"failing", func(x *fixture) { x.faulty("", fakeapi.Fault{Status: 500}); x.api.Disconnect() },
			func(x *fixture) { x.after(10 * time.Second); x.api.Hook(nil) }},
		{"hanging", func(x *fixture) { x.faulty("", fakeapi.Fault{Hang: true}); x.api.Disconnect() },
			func(x *fixture) { x.after(time.Minute); x.api.Hook(nil); x.api.Disconnect() }},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s watchList=%t", test.name, !plain), func(t *testing.T) {
				script(t, consolidateEarly, func(x *fixture) {
					x.api.Plain = plain
					x.watchSecrets(8)
					test.breaks(x)
					test.recovers(x)
					x.after(10 * time.Minute)
					x.expect("nothing has changed")
					x.shared("as before", 8, 1)
					test.breaks(x)
					x.api.Stop() // hides the single changes
					x.put(secret(1))
					x.remove(secret(2))
					x.put(secret(3))
					x.remove(secret(4))
					x.put(secret(4))
					x.api.Start()
					test.recovers(x)
					x.after(10 * time.Minute)
					x.expect("those have changed", policy("1"), policy("2"), policy("3"), policy("4"))
					x.shared("as before", 8, 1)
					x.exact(5)
				})
			})
		}
	}
}

// TestOverloadKeepsSharedWatch checks that an overloaded server does not receive many single
// watches instead of one shared watch.
func TestOverloadKeepsSharedWatch(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		x.watchSecrets(8)
		x.faulty("", fakeapi.Fault{Status: 429, RetryAfter: 1})
		x.api.Disconnect()
		before := x.api.Counts().Watches
		x.after(20 * time.Second)
		if n := x.api.Counts().Watches - before; n < 3 || n > 20 {
			t.Errorf("%d requests in 20 s", n)
		}
		x.api.Hook(nil)
		x.after(30 * time.Second)
		x.shared("as before", 8, 1)
		x.expect("nothing has changed")
	})
}

// TestHangingSharedWatchIsReplaced checks that a hanging request for the namespace delays its
// objects for half a minute, and nothing else.
func TestHangingSharedWatchIsReplaced(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		x.watchSecrets(4)
		x.api.Hook(func(q fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Hang: q.Name == ""} })
		x.api.Disconnect()
		x.after(10 * time.Second)
		x.state4(dynamicwatcher.StateBackoff)
		x.must(x.AddWatcher(p, secret(10)))
		x.put(secret(10))
		x.after(time.Second)
		x.expect("it has a watch of its own", p)
		x.must(x.RemoveWatcher(p))
		x.after(30 * time.Second)
		x.state4(dynamicwatcher.StateActive)
		x.shared("single watches", 0, 4)
		x.exact(0)
	})
}

func TestSharedWatchOfServerRestoredFromBackup(t *testing.T) {
	for _, plain := range []bool{false, true} {
		script(t, consolidateEarly, func(x *fixture) {
			x.api.Plain = plain
			for i := range 4 {
				x.put(secret(i))
			}
			restore := x.api.Snapshot()
			x.watchSecrets(6)
			x.put(secret(2))
			x.expect("it changed", policy("2"))
			x.after(10 * time.Second)
			restore()
			x.after(time.Minute)
			x.expect("they are what they were before", policy("0"), policy("1"), policy("2"), policy("4"), policy("5"))
			x.shared("as before", 6, 1)
			x.exact(0)
			x.exact(3)
		})
	}
}

func TestConsolidatedCRDDeletedAndRecreated(t *testing.T) {
	options := consolidateEarly
	options.MissingKind = dynamicwatcher.Wait
	script(t, options, func(x *fixture) {
		x.api.CreateCRD(widget, "widgets", true, 0)
		x.after(time.Second)
		var all []dynamicwatcher.ObjectIdentifier
		for i := range 4 {
			o := id(widget, "ns", strconv.Itoa(i))
			x.must(x.AddWatcher(policy(o.Name), o))
			if all = append(all, policy(o.Name)); i > 0 {
				x.put(o)
			}
		}
		x.after(time.Minute)
		x.r.take()
		for range 3 {
			x.shared("taken over", 4, 1)
			x.api.DeleteCRD(widget, "widgets")
			x.after(time.Minute)
			for _, c := range x.expect("they are gone", all[1:]...) {
				if c.Triggers[0].Type != dynamicwatcher.TriggerDeleted {
					t.Errorf("the trigger is %+v", c.Triggers)
				}
			}
			x.state4(dynamicwatcher.StatePendingKind)
			x.api.CreateCRD(widget, "widgets", true, 100*time.Millisecond)
			x.after(100 * time.Millisecond)
			for i := range 3 {
				x.put(id(widget, "ns", strconv.Itoa(i+1)))
			}
			x.after(time.Second)
			x.expect("they are back within a second", all[1:]...)
			x.after(time.Minute)
			x.expect("nothing has changed")
		}
	})
}

func TestClusterScopedObjectsShareOneWatch(t *testing.T) {
	script(t, consolidateEarly, func(x *fixture) {
		for i := range 4 {
			o := id(fakeapi.Namespace, "", strconv.Itoa(i))
			x.put(o)
			x.must(x.AddWatcher(policy(o.Name), o))
		}
		x.after(time.Minute)
		x.r.take()
		x.shared("taken over", 4, 1)
		x.put(id(fakeapi.Namespace, "", "2"))
		x.expect("it changed", policy("2"))
	})
}
