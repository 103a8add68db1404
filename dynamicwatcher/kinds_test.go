// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/internal/fakeapi"
)

func TestKindComes(t *testing.T) {
	for _, served := range []time.Duration{0, 50 * time.Millisecond, 800 * time.Millisecond} {
		script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
			x.must(x.AddOrUpdateWatcher(p, widgetA))
			x.must(x.AddOrUpdateWatcher(q, id(widget, "ns", "b")))
			x.after(time.Hour)
			for _, s := range x.Status() {
				if s.State != dynamicwatcher.PendingKind || s.Err == nil {
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

func TestKindGoesAndComesBack(t *testing.T) {
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
			if got := x.trigger(x.expect("it is gone with its kind; q's never was there", p)); got.Type != dynamicwatcher.Deleted {
				t.Errorf("the trigger is %+v", got)
			}
			x.api.CreateCRD(widget, "widgets", true, 100*time.Millisecond)
			x.after(100 * time.Millisecond)
			x.put(widgetA)
			x.after(time.Second)
			x.expect("it is back", p)
			x.after(10 * time.Second)
		}
	})
}

// TestKindThatSettles: an API server that has just begun to serve a kind refuses watches for some milliseconds, and asks for
// a second of patience. It does not get that.
func TestKindThatSettles(t *testing.T) {
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

// Lookups that wait for a kind of a group version say nothing of its other kinds.
func TestOtherKindsWhileOneIsAwaited(t *testing.T) {
	script(t, dynamicwatcher.Options{MissingKind: dynamicwatcher.Wait}, func(x *fixture) {
		gadget := widget
		gadget.Kind = "Gadget"
		x.api.AddKind(gadget, "gadgets", true)
		x.watch(widgetA)
		x.state(dynamicwatcher.PendingKind)
		for range 100 {
			if _, err := x.GVKToGVR(gadget); err != nil {
				x.t.Fatal(err)
			}
			x.after(77 * time.Millisecond)
		}
	})
}
