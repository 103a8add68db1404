// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestForget: Forget ends the cleanups and the probes of a cluster that does not recover.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{ConnectorIdle: time.Second})
		s.create("a", "web@c2 p=1")
		s.create("b", "web@c2 q=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		c := s.clusters.Cluster("edge", "c2")
		s.mode("c2", fake.ModeBlackHole)
		s.detach("a", "c2")
		s.detach("b", "c2")
		time.Sleep(24 * time.Hour)
		before, requests := len(c.Probes()), c.Count(fake.VerbDelete)
		time.Sleep(24 * time.Hour)
		if probes := len(c.Probes()) - before; probes < 100 || probes > 300 || c.Count(fake.VerbDelete) != requests {
			t.Errorf("%d probes and %d deletions a day", probes, c.Count(fake.VerbDelete)-requests)
		}
		for i := 0; s.clusters.Open() != 0; i++ { // a probe may be in progress
			if i == 60 {
				t.Error("the connector stays open between probes")
				break
			}
			time.Sleep(time.Second)
		}
		all, err := s.engine.Detached(t.Context())
		if err != nil || len(all) != 2 || all[0].Reason != rsync.ReasonUnreachable || all[0].Message == "" {
			t.Errorf("%+v, %v", all, err)
		}
		if err := s.engine.Forget(t.Context(), onEdge("c2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.pending("")
		before = len(c.Probes())
		time.Sleep(24 * time.Hour)
		if probes := len(c.Probes()) - before; probes > 0 {
			t.Errorf("%d probes of a cluster for which nothing waits", probes)
		}
		for _, id := range []string{"a", "b"} {
			s.done(s.engine.Terminate(t.Context(), id))
			if err := s.engine.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if n := s.memory.Len(); n != 1 { // the key of the engine
			t.Errorf("%d keys are left", n)
		}
	})
}

// TestCleanupIsRefused: a cleanup is retried at long intervals until the cluster accepts it.
func TestCleanupIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{MaxRetries: 2})
		s.create("a", "web@c2 p=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.mode("c2", fake.ModeRefusing)
		s.detach("a", "c2")
		time.Sleep(24 * time.Hour)
		if n := s.clusters.Cluster("edge", "c2").Count(fake.VerbDelete); n < 100 || n > 350 {
			t.Errorf("%d attempts in a day", n)
		}
		s.pending("a@c2 p")
		s.mode("c2", fake.ModeWorks)
		time.Sleep(cleanupProbeTime)
		s.pending("")
		s.shows("c2", "")
	})
}

// TestCleanupWaitsForCallInFlight: the cleanup begins only after a call of the detached context has
// ended.
func TestCleanupWaitsForCallInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{CallTimeout: time.Hour})
		s.create("a", "web@c1 p=1 q=1")
		c := s.clusters.Cluster("edge", "c1")
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbApply {
				time.Sleep(20 * time.Minute) // the call ignores its context
			}
			return nil
		})
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Second)
		s.detach("a", "c1")
		time.Sleep(10 * time.Minute)
		s.pending("a@c1 p q")
		if c.Count(fake.VerbDelete) > 0 {
			t.Error("deleted while a call is under way")
		}
		time.Sleep(time.Hour)
		s.done(ref, nil)
		s.shows("c1", "")
		s.pending("")
	})
}

// TestInstantiateAfterDetach: another context with the same objects is instantiated after the
// cleanup, in whichever order the cluster answers them. The event does not wait for the next probe
// of the cleanup. Another engine may own the cleanup.
func TestInstantiateAfterDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		for range 3 {
			_, stop := startEngine(t, s.memory, s.clusters, rsync.Options{})
			t.Cleanup(stop)
		}
		s.create("a", "web@c1 p=1 q=1")
		s.create("b", "web@c1 p=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.mode("c1", fake.ModeUnreachable)
		s.detach("a", "c1")
		time.Sleep(time.Hour)
		ref := s.ref(s.engine.Instantiate(t.Context(), "b"))
		time.Sleep(time.Hour)
		s.mode("c1", fake.ModeWorks)
		began := time.Now()
		s.done(ref, nil)
		if took := time.Since(began); took > 90*time.Second {
			t.Errorf("it took %s", took)
		}
		s.shows("c1", "p=2")
		s.pending("")
	})
}
