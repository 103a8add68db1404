// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestBlackHole: one of ten clusters answers no calls. The other nine clusters need about the same
// time as without it.
func TestBlackHole(t *testing.T) {
	const contexts, clusters = 40, 10
	run := func(t *testing.T, hole bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{ClusterConcurrency: 4})
			for c := range clusters {
				s.clusters.Cluster("edge", fmt.Sprint("c", c)).SetDelay(100 * time.Millisecond)
			}
			if hole {
				s.clusters.Cluster("edge", "c0").SetMode(fake.ModeBlackHole)
			}
			for i := range contexts {
				text := ""
				for c := range clusters {
					text += fmt.Sprintf("web@c%d x%d=1;", c, i)
				}
				s.create(fmt.Sprint("id", i), text)
			}
			began := time.Now()
			for i := range contexts {
				s.ref(s.engine.Instantiate(t.Context(), fmt.Sprint("id", i)))
			}
			time.Sleep(time.Minute)
			for c := 1; c < clusters; c++ {
				calls := s.clusters.Cluster("edge", fmt.Sprint("c", c)).Calls()
				if len(calls) != contexts {
					t.Fatalf("cluster %d did %d of %d", c, len(calls), contexts)
				}
				took = max(took, calls[len(calls)-1].Time.Sub(began))
			}
		})
		return took
	}
	healthy, black := run(t, false), run(t, true)
	t.Logf("healthy %s, with a black hole %s", healthy, black)
	if float64(black) > 1.1*float64(healthy) {
		t.Errorf("nine clusters take %s with a black hole and %s without", black, healthy)
	}
}

// TestDeadCluster: a thousand contexts wait for one cluster. The cluster receives at most one probe
// per second in total. All events end within a second after it recovers.
func TestDeadCluster(t *testing.T) {
	const contexts = 1000
	for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeBlackHole} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			c := s.clusters.Cluster("edge", "c1")
			c.SetMode(mode)
			var refs []rsync.EventRef
			for i := range contexts {
				s.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
				refs = append(refs, s.ref(s.engine.Instantiate(t.Context(), fmt.Sprint("id", i))))
			}
			time.Sleep(10*time.Minute + 123*time.Millisecond)
			probes := c.Probes()
			if len(probes) < 500 {
				t.Errorf("only %d probes", len(probes))
			}
			for i := range probes[1:] {
				if d := probes[i+1].Sub(probes[i]); d < time.Second {
					t.Errorf("probes %d and the next are %s apart", i, d)
				}
			}
			goroutines := runtime.NumGoroutine()
			began := time.Now()
			c.SetMode(fake.ModeWorks)
			for _, ref := range refs {
				s.done(ref, nil)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("they took %s", took)
			}
			t.Logf("%d probes in ten minutes, %d goroutines, all resumed in %s", len(probes), goroutines, time.Since(began))
			if goroutines > 100 {
				t.Errorf("%d goroutines wait", goroutines)
			}
		})
	}
}

// TestQueuedCallOfClusterThatGoesDown: a call that is queued behind a failed one is made when the
// cluster recovers, even if the event of the failed call has ended.
func TestQueuedCallOfClusterThatGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{ClusterConcurrency: 1})
		c := s.clusters.Cluster("edge", "c1")
		c.SetMode(fake.ModeUnreachable)
		c.SetDelay(400 * time.Millisecond)
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 y=1")
		first := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(100 * time.Millisecond)
		second := s.ref(s.engine.Instantiate(t.Context(), "b"))
		time.Sleep(100 * time.Millisecond)
		if err := s.engine.Stop(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.fails(rsync.ReasonStopped, first, nil)
		c.SetMode(fake.ModeWorks)
		s.done(second, nil)
	})
}
