// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"runtime"
	"sync"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// processor returns the processor time that the process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestEventsAreLinearInClusters: each step in the life of a context takes processor time in
// proportion to its clusters. An app waits for another app, on the same clusters or on other
// clusters.
func TestEventsAreLinearInClusters(t *testing.T) {
	const factor = 10
	small := 400
	if testing.Short() || raceEnabled {
		small = 50
	}
	for name, shift := range map[string]int{"on the same clusters": 0, "on other clusters": 1} {
		t.Run(name, func(t *testing.T) {
			life := func(clusters int) map[string]time.Duration {
				s := newScene(t, nil, rsync.Options{ConnectorIdle: time.Millisecond})
				defer s.stop()
				took := map[string]time.Duration{}
				last := processor(t)
				lap := func(what string) {
					now := processor(t)
					took[what], last = now-last, now
				}
				b := appcontext.NewBuilder("a")
				b.App("web").DependsOn("db", appcontext.OpStatusReady, 0)
				for i := range clusters {
					b.App("db").Resource("edge", fmt.Sprint("c", i), manifest("ConfigMap", "db", "1"))
					b.App("web").Resource("edge", fmt.Sprint("c", i+shift*clusters), manifest("ConfigMap", "web", "1"))
				}
				c, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				lap("build")
				if err := s.engine.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				lap("create")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				lap("instantiate")
				s.create("b", "db@c0 db=1")
				last = processor(t)
				s.done(s.engine.Update(t.Context(), "a", "b"))
				lap("update")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				last = processor(t)
				s.done(s.engine.Terminate(t.Context(), "a"))
				lap("terminate")
				if err := s.engine.Delete(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				lap("delete")
				return took
			}
			life(small) // work that is done once in a process
			few, many := life(small), life(factor*small)
			for what, d := range many {
				t.Logf("%s: %s with %d clusters, %s with %d", what, few[what], small, d, factor*small)
				if d > 3*factor*few[what] && d > 2*time.Second {
					t.Errorf("%s takes %s with %d clusters, and %s with %d", what, few[what], small, d, factor*small)
				}
			}
		})
	}
}

// TestFleet: a thousand contexts, with ten resources on each of ten clusters, need a bounded number
// of goroutines. After their deletion the heap has grown by at most 2 MiB.
func TestFleet(t *testing.T) {
	contexts := 1000
	if testing.Short() || raceEnabled {
		contexts = 100
	}
	s := newScene(t, nil, rsync.Options{ConnectorIdle: 10 * time.Millisecond})
	heapBase := heap()
	for i := range contexts {
		text := ""
		for c := range 10 {
			text += fmt.Sprintf("web@c%d", c)
			for r := range 10 {
				text += fmt.Sprintf(" x%d-%d=1", i, r)
			}
			text += ";"
		}
		s.create(fmt.Sprint("id", i), text)
	}
	base, loaded := runtime.NumGoroutine(), heap()
	var peak int
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, runtime.NumGoroutine())
			}
		}
	})
	began := time.Now()
	for _, queue := range []func(id string) (rsync.EventRef, error){
		func(id string) (rsync.EventRef, error) { return s.engine.Instantiate(t.Context(), id) },
		func(id string) (rsync.EventRef, error) { return s.engine.Terminate(t.Context(), id) },
	} {
		var refs []rsync.EventRef
		for i := range contexts {
			refs = append(refs, s.ref(queue(fmt.Sprint("id", i))))
		}
		for _, ref := range refs {
			s.done(ref, nil)
		}
	}
	took := time.Since(began)
	close(over)
	watcher.Wait()
	for c := range 10 {
		if got := s.objects(fmt.Sprint("c", c)); got != "" {
			t.Errorf("cluster %d has %d bytes of names left", c, len(got))
		}
		s.clusters.Cluster("edge", fmt.Sprint("c", c)).Forget()
	}
	for i := range contexts {
		if err := s.engine.Delete(t.Context(), fmt.Sprint("id", i)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	s.memory.Compact()
	grown := float64(heap()) - float64(heapBase)
	t.Logf("%d contexts in %s, goroutines %d before, at most %d, heap %.1f MiB, with the contexts stored %.1f MiB, and "+
		"%.1f MiB more than before when they are deleted",
		contexts, took, base, peak, float64(heapBase)/(1<<20), float64(loaded)/(1<<20), grown/(1<<20))
	// A call that ends begins the next call, so both exist for a moment.
	if limit := base + 10*(3*8+3) + 20; peak > limit {
		t.Errorf("there were %d goroutines, want at most %d", peak, limit)
	}
	if grown > 2<<20 {
		t.Errorf("the heap has grown by %.1f MiB", grown/(1<<20))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
