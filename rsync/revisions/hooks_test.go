// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// hooked starts a manager. On its cluster c1 no Job completes before complete is called.
func hooked(t *testing.T) (f *fixture, c1 *fake.Cluster) {
	t.Helper()
	f = newFixture(t)
	f.start()
	c1 = f.clusters.Cluster("hub", "c1")
	c1.SetUnready(func(o appcontext.Object) bool { return o.Kind == "Job" })
	return f, c1
}

func complete(c *fake.Cluster) {
	for o := range c.Objects() {
		c.SetReady(o, true, false)
	}
}

// logs waits until a message contains a text.
func (f *fixture) logs(what string) {
	f.t.Helper()
	f.until("a log line with "+what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.ContainsFunc(f.said, func(line string) bool { return strings.Contains(line, what) })
	})
}

// TestHookOfStoppedRemoval checks an application that is set again during its removal. The
// hook Job of the removal is deleted, unless the new revision also has it.
func TestHookOfStoppedRemoval(t *testing.T) {
	for name, tt := range map[string]struct{ part, content, want string }{
		"another part":                   {"other", "a=1 b=2", "a=1 b=2"},
		"the part keeps its name":        {"main", "a=1 b=2", "a=1 b=2"},
		"and has the hook":               {"main", "pre-delete!bye=2 a=1 b=2", "a=1 b=2 bye=1"}, // until the next removal
		"and it is one of the beginning": {"main", "pre-install!bye=2 a=1 b=2", "a=1 b=2 bye=2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c1 := hooked(t)
				f.Set("shop", f.target("pre-delete!bye=1 a=1 b=1", "c1"))
				f.settle()
				f.Set("shop", f.target("pre-delete!bye=1 a=1 b=1"))
				time.Sleep(time.Minute)
				f.has("c1", "a=1 b=1 bye=1")
				f.part = tt.part
				f.Set("shop", f.target(tt.content, "c1"))
				time.Sleep(time.Minute) // longer than the patience
				complete(c1)
				f.settle()
				f.has("c1", tt.want)
				f.Set("shop", revisions.Target{})
				time.Sleep(time.Minute)
				complete(c1)
				f.settle()
				f.has("c1", "")
			})
		})
	}
}

// TestRemovalStopsUpdate checks that the removal of an application stops the update in progress, also
// if that is possible only in the next step of the update.
func TestRemovalStopsUpdate(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c1 := hooked(t)
				f.Set("shop", f.target("pre-delete!bye=1 a=1", "c1"))
				f.settle()
				f.part = "other"
				c1.SetDelay(time.Second)
				f.Set("shop", f.target("b=2", "c1"))
				// a call that takes a second
				f.until("the update is under way", func() bool { return c1.Count(fake.VerbApply) == 2 })
				if restart {
					f.stop()
					f.start()
					f.until("it is under way again", func() bool { return c1.Count(fake.VerbApply) == 3 })
				}
				f.Set("shop", revisions.Target{})
				f.logs("Started to remove an application")
				time.Sleep(time.Minute)
				complete(c1)
				f.settle()
				f.has("c1", "")
			})
		})
	}
}

// TestImmediateRemoval checks that an application is removed although its removal from the clusters
// has just begun, at any step.
func TestImmediateRemoval(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f, c1 := hooked(t)
			f.Set("shop", f.target("pre-delete!bye=1 a=1", "c1"))
			f.settle()
			f.Set("shop", f.target("pre-delete!bye=1 a=1"))
			f.until("its end has begun", func() bool { s, _ := f.Status("shop"); return s.Revision == 2 })
			f.Set("shop", revisions.Target{})
			f.logs("Started to remove an application")
			time.Sleep(time.Minute)
			complete(c1)
			f.settle()
			f.has("c1", "")
		})
	}
}

// TestPatienceAfterRestart checks an unwanted event of an earlier process. It delays the next
// revision no longer than an event of this process.
func TestPatienceAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c1 := hooked(t)
		f.Set("shop", f.target("pre-delete!bye=1 a=1", "c1"))
		f.settle()
		f.Set("shop", f.target("pre-delete!bye=1 a=1"))
		time.Sleep(time.Minute)
		f.has("c1", "a=1 bye=1")
		f.stop()
		f.start()
		f.Set("shop", f.target("a=2", "c1"))
		time.Sleep(patience - time.Second)
		f.has("c1", "a=1 bye=1")
		time.Sleep(2 * time.Second)
		f.has("c1", "a=2")
		f.settle()
		f.Set("shop", f.target("pre-delete!bye=3 a=3", "c1"))
		f.settle()
		f.Set("shop", revisions.Target{})
		time.Sleep(time.Minute)
		f.has("c1", "a=3 bye=3")
		f.stop()
		f.start()
		f.Set("shop", revisions.Target{}) // the removal in progress does not stop itself
		time.Sleep(time.Hour)
		s, err := f.Engine().Status(t.Context(), revisions.ContextID("shop", 4))
		if err != nil || s.State != rsync.Terminating {
			t.Errorf("%+v, %v", s, err)
		}
		complete(c1)
		f.settle()
		f.has("c1", "")
	})
}
