// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"errors"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestDependencyWait: an app begins when its dependency has been deployed for the requested wait,
// and not earlier.
func TestDependencyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		b := appcontext.NewBuilder("a")
		b.App("web").DependsOn("db", appcontext.OpStatusDeployed, 30*time.Second).Resource("edge", "c1",
			manifest("ConfigMap", "w", "1"))
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

// TestDeleteOrderSame: DeleteOrderSame deletes in the order of application.
func TestDeleteOrderSame(t *testing.T) {
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
			s := newScene(t, nil,
				rsync.Options{MaxRetries: limit, Backoff: rsync.Backoff{Base: time.Second, Max: 4 * time.Second}})
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

// TestOtherContextIsDeletedWhileQueued: an update fails, and changes nothing, if its other context
// is deleted before the update begins.
func TestOtherContextIsDeletedWhileQueued(t *testing.T) {
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

// TestComparerPanics: a comparer that panics fails the event, and no object is deleted. The error
// names the object and the type of the panic, but not its value. The engine continues.
func TestComparerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32 // the UpdateDeletes of two contexts call it concurrently
		s := newScene(t, nil, rsync.Options{Comparer: func(before, after *appcontext.Resource) bool {
			if n := calls.Add(1); n == 1 || n >= 3 { // the first update; the UpdateDeletes of the second update
				panic("secret")
			}
			return appcontext.Bytes(before, after)
		}})
		s.create("a", "web@c1 x=1 gone=1")
		s.create("b", "web@c1 x=2")
		s.create("c", "web@c1 x=3")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		failed := func(failure *rsync.EventError) {
			t.Helper()
			if text := failure.Error(); !strings.Contains(text, "ConfigMap") ||
				!strings.Contains(text, "panicked with a string") || strings.Contains(text, "secret") {
				t.Errorf("the error must name the object and the type of the panic alone: %s", text)
			}
		}
		failed(s.failure(rsync.ReasonInvalidContext, s.ref(s.engine.Update(t.Context(), "a", "b")), nil))
		s.shows("c1", "gone=1 x=1")
		failed(s.failure(rsync.ReasonInvalidContext, s.ref(s.engine.Update(t.Context(), "a", "c")), nil))
		s.shows("c1", "gone=1 x=3")
		s.done(s.engine.Terminate(t.Context(), "c"))
	})
}

func TestInvalidOptions(t *testing.T) {
	s, c := memstore.New(memstore.Options{}), fake.New()
	registry := prometheus.NewRegistry()
	if _, err := rsync.New(s, c, rsync.Options{MetricsRegisterer: registry}); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]rsync.Options{
		"workers": {Workers: -1}, "lease": {LeaseTTL: time.Millisecond}, "order": {DeleteOrder: 7},
		"table":   {Transitions: rsync.Transitions{}},
		"states":  {Transitions: rsync.Transitions{{Event: rsync.Instantiate, Desired: "Lost"}}},
		"metrics": {MetricsRegisterer: registry},
	} {
		if _, err := rsync.New(s, c, o); !errors.Is(err, rsync.ErrInvalidInput) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := rsync.New(nil, c, rsync.Options{}); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("no store: %v", err)
	}
}

// TestMaxRetries: after MaxRetries, a cluster that still refuses or does not answer fails the
// event.
func TestMaxRetries(t *testing.T) {
	for mode, want := range map[fake.Mode]rsync.Reason{
		fake.ModeFailing: rsync.ReasonRetriesExhausted, fake.ModeUnreachable: rsync.ReasonUnreachable,
		fake.ModeBlackHole: rsync.ReasonUnreachable,
	} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{MaxRetries: 5})
				s.create("a", "web@c1 x=1; web@c2 x=1")
				s.clusters.Cluster("edge", "c1").SetMode(mode)
				failure := s.failure(want, s.ref(s.engine.Instantiate(t.Context(), "a")), nil)
				if want == rsync.ReasonUnreachable && !errors.Is(failure, rsync.ErrUnreachable) {
					t.Errorf("%v is not ErrUnreachable", failure)
				}
				s.shows("c2", "x=1")
			})
		})
	}
}
