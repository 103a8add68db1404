// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestDependencyWait: an app begins when its dependency has been deployed for the requested wait,
// and not earlier.
func TestDependencyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		b := appcontext.NewBuilder("a")
		b.App("web").DependsOn("db", appcontext.OpStatusDeployed, 30*time.Second).Resource("edge", "c1", manifest("ConfigMap", "w", "1"))
		b.App("db").Resource("edge", "c1", manifest("ConfigMap", "d", "1"))
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.engine.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		calls := s.clusters.Cluster("edge", "c1").Calls()
		if got := s.verbs("c1"); got != "Apply d, Apply w" {
			t.Fatalf("it did %s", got)
		}
		if waited := calls[1].Time.Sub(calls[0].Time); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("it waited %s", waited)
		}
	})
}

// TestSameOrder: DeleteOrderSame deletes in the order of application.
func TestSameOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{DeleteOrder: rsync.DeleteOrderSame})
		s.create("a", "web@c1 x=1 y=1 z=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").Forget()
		s.done(s.engine.Terminate(t.Context(), "a"))
		if got := s.verbs("c1"); got != "Delete x, Delete y, Delete z" {
			t.Errorf("it did %s", got)
		}
	})
}

// TestConnectorIdle: an unused connector is closed after ConnectorIdle, and opened again when it is
// needed.
func TestConnectorIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{ConnectorIdle: 10 * time.Second})
		s.create("a", "web@c1 x=1")
		for range 2 {
			s.done(s.engine.Instantiate(t.Context(), "a"))
			time.Sleep(9 * time.Second)
			if n := s.clusters.Open(); n != 1 {
				t.Errorf("%d connectors are open, want 1", n)
			}
			time.Sleep(2 * time.Second)
			if n := s.clusters.Open(); n != 0 {
				t.Errorf("%d connectors are open after their time", n)
			}
		}
	})
}

// TestMaxRetriesCounts: MaxRetries is the number of retries of a call, with the backoff between
// them.
func TestMaxRetriesCounts(t *testing.T) {
	for _, limit := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{MaxRetries: limit, Backoff: rsync.Backoff{Base: time.Second, Max: 4 * time.Second}})
			s.create("a", "web@c1 x=1")
			c := s.clusters.Cluster("edge", "c1")
			c.SetMode(fake.ModeFailing)
			began := time.Now()
			s.fails(rsync.ReasonRetriesExhausted, s.ref(s.engine.Instantiate(t.Context(), "a")), nil)
			if got := c.Count(fake.VerbApply); got != limit+1 {
				t.Errorf("MaxRetries %d: %d calls", limit, got)
			}
			longest := time.Duration(1<<limit-1) * time.Second // 1 s, 2 s, 4 s
			if took := time.Since(began); took < longest/2 || took > longest {
				t.Errorf("MaxRetries %d: it took %s, want between %s and %s", limit, took, longest/2, longest)
			}
		})
	}
}

// TestComparer: a resource that the comparer reports as unchanged is not applied again.
func TestComparer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Comparer: func(before, after *appcontext.Resource) bool {
			return !bytes.Equal(bytes.TrimRight(before.Manifest, "\n#"), bytes.TrimRight(after.Manifest, "\n#"))
		}})
		s.create("a", "web@c1 x=1 y=1")
		s.create("b", "web@c1 x=1## y=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").Forget()
		s.done(s.engine.Update(t.Context(), "a", "b"))
		if got := s.verbs("c1"); got != "Apply y" {
			t.Errorf("it did %s", got)
		}
	})
}

// TestHistoryLimit: a queue keeps the last HistoryLimit elements that are done.
func TestHistoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{HistoryLimit: 3})
		s.create("a", "web@c1 x=1")
		var last rsync.EventRef
		for range 10 {
			last = s.ref(s.engine.Read(t.Context(), "a"))
			s.done(last, nil)
		}
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, e := range status.Queue {
			got = append(got, e.Seq)
		}
		if want := []uint64{last.Seq - 2, last.Seq - 1, last.Seq}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the queue has %v, want %v", got, want)
		}
	})
}

// TestGoneWhileQueued: an update fails, and changes nothing, if its other context is deleted before
// the update begins.
func TestGoneWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.create("b", "web@c1 x=2")
		r.ref(r.user.Update(t.Context(), "a", "b"))
		if err := r.user.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		_, stop := startEngine(t, r.memory, r.clusters, rsync.Options{})
		defer stop()
		r.wants("b", "Update Error NotFound", rsync.Created)
		r.shows("c1", "")
	})
}
