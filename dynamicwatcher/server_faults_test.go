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
		{dynamicwatcher.StateActive, "the watch delivers", func(x *fixture) {}},
		{dynamicwatcher.StateBackoff, "the server fails", func(x *fixture) { x.faulty("watch", fakeapi.Fault{Status: 500}) }},
		{dynamicwatcher.StateBackoff, "the server is unreachable", func(x *fixture) { x.api.Stop() }},
		{dynamicwatcher.StateNoAccess, "no access", func(x *fixture) { x.faulty("watch", fakeapi.Fault{Status: 403}) }},
		{dynamicwatcher.StatePendingKind, "the kind is deleted", func(x *fixture) { x.api.DeleteCRD(widget, "widgets") }},
		{dynamicwatcher.StatePendingKind, "the kind is deleted, and lookups hang", func(x *fixture) {
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

// TestHangingRequestDelaysNoOther checks that a hanging request delays no other request.
func TestHangingRequestDelaysNoOther(t *testing.T) {
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
			t.Errorf("%d watches are active, besides the hanging one", active)
		}
	})
}

// TestRequestWithoutAnswerIsRepeated checks that a request without an answer is ended after two
// minutes, and retried. Other requests are not affected.
func TestRequestWithoutAnswerIsRepeated(t *testing.T) {
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

// TestServerWithoutInitialBookmarkIsListed checks a server that does not end its initial events.
// The objects are listed after 10 s, and other group versions still use watches.
func TestServerWithoutInitialBookmarkIsListed(t *testing.T) {
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
				if s := x.Status(); s[0].State != dynamicwatcher.StateActive || s[1].State != dynamicwatcher.StateActive ||
					lists != 2 {
					t.Errorf("%d lists, and the status is %+v", lists, s)
				}
			})
		})
	}
}
