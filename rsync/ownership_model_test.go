// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestOwnership: random events run concurrently on contexts with common objects, including rollouts
// that roll back. Clusters refuse and delay, and engines crash. In the end each instantiated
// context has all of its objects. Each object on a cluster belongs to a context that holds it, or
// that failed to delete it. After all contexts are terminated, no object exists.
func TestOwnership(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		for i := range texts {
			texts[i], _ = drawText(rt)
		}
		steps := rapid.SliceOfN(rapid.Custom(drawStep(n)), 1, 12).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, texts)
			for _, s := range steps {
				w.step(s)
			}
			w.settle()
			w.check()
			w.terminateAll()
			w.stop()
			if t.Failed() {
				t.Logf("contexts %q, steps %+v", texts, steps)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// step is an action in a world.
type step struct {
	What     string
	ID, Next int
	Cluster  int
	Wait     time.Duration
	Write    int // the write at which an engine crashes
}

func drawStep(n int) func(*rapid.T) step {
	return func(t *rapid.T) step {
		return step{
			What: rapid.SampledFrom([]string{
				"instantiate", "instantiate", "terminate", "terminate", "update", "update", "read",
				"rollout", "rolling update", "abort", "crash", "refuse", "work", "slow",
			}).Draw(t, "what"),
			ID:      rapid.IntRange(0, n-1).Draw(t, "id"),
			Next:    rapid.IntRange(0, n-1).Draw(t, "next"),
			Cluster: rapid.IntRange(0, 2).Draw(t, "cluster"),
			Wait: rapid.SampledFrom([]time.Duration{
				0, time.Millisecond, 300 * time.Millisecond, time.Minute,
			}).Draw(t, "wait"),
		}
	}
}

// oneByOne is a rollout that continues cluster by cluster, and rolls itself back after a failure.
var oneByOne = rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", ProgressDeadline: 30 * time.Second,
	RollbackOnFailure: true})

// world has contexts, clusters, a steady engine, and an engine that crashes and is replaced.
type world struct {
	*scene
	ids   []string
	specs []*appcontext.AppContext
	kill  func()

	plan     func(int, []store.Op) storetest.Verdict // for the next engine
	attached []string
}

func newWorld(t *testing.T, texts []string) *world {
	memory := memstore.New(memstore.Options{})
	w := &world{scene: &scene{t: t, memory: memory, clusters: fake.New()}}
	var err error
	if w.engine, err = rsync.New(memory, w.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		w.ids = append(w.ids, fmt.Sprint("id", i))
		w.create(w.ids[i], text)
		w.specs = append(w.specs, parse(t, w.ids[i], text))
	}
	w.start()
	_, stop := startEngine(t, memory, w.clusters, rsync.Options{Name: "steady"})
	w.stop = func() {
		w.kill()
		stop()
	}
	return w
}

// start starts an engine that can crash.
func (w *world) start() {
	faults := storetest.NewFaults(w.memory, w.plan)
	engine, err := rsync.New(faults, w.clusters, rsync.Options{Name: "mortal"})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	w.kill = func() {
		faults.Crash()
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) step(s step) {
	c := w.clusters.Cluster("edge", fmt.Sprint("c", s.Cluster))
	id, next := w.ids[s.ID], w.ids[s.Next]
	switch s.What {
	case "instantiate":
		w.ref(w.engine.Instantiate(w.t.Context(), id))
	case "terminate":
		w.ref(w.engine.Terminate(w.t.Context(), id))
	case "read":
		w.ref(w.engine.Read(w.t.Context(), id))
	case "update":
		if id != next {
			w.ref(w.engine.Update(w.t.Context(), id, next))
		}
	case "rollout":
		w.ref(w.engine.Instantiate(w.t.Context(), id, oneByOne))
	case "rolling update":
		if id != next {
			w.ref(w.engine.Update(w.t.Context(), id, next, oneByOne))
		}
	case "abort":
		for _, e := range w.status(id).Queue {
			if err := w.engine.Abort(w.t.Context(), rsync.EventRef{AppContextID: id, Seq: e.Seq}); e.Rollout && err != nil &&
				!errors.Is(err, rsync.ErrInvalidState) {
				w.t.Error(err)
			}
		}
	case "refuse":
		c.SetMode(fake.ModeRefusing)
	case "slow":
		c.SetDelay(400 * time.Millisecond)
	case "work":
		c.SetMode(fake.ModeWorks)
		c.SetDelay(0)
	case "crash":
		w.kill()
		w.start()
	}
	time.Sleep(s.Wait)
}

// settle makes all clusters work. It checks that all events have ended an hour later.
func (w *world) settle() {
	for c := range 3 {
		w.clusters.Cluster("edge", fmt.Sprint("c", c)).SetMode(fake.ModeWorks)
	}
	time.Sleep(time.Hour)
	for _, id := range w.ids {
		for _, e := range w.status(id).Queue {
			if !e.Status.Final() {
				w.t.Errorf("after an hour %s of %s is %s", e.Event, id, e.Status)
			}
		}
	}
}

func (w *world) status(id string) *rsync.Status {
	status, err := w.engine.Status(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

func (w *world) check() {
	for c := range 3 {
		cluster := appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", c)}
		have := w.clusters.Cluster("edge", cluster.Name).Objects()
		explained := map[appcontext.Object]bool{}
		for i, spec := range w.specs {
			status := w.status(w.ids[i])
			state := status.State
			if slices.Contains(status.Detached, cluster) {
				continue
			}
			for _, a := range spec.Apps {
				in := a.Cluster(cluster)
				if in == nil {
					continue
				}
				for _, r := range in.Resources {
					explained[r.Object] = explained[r.Object] ||
						state != rsync.Created && state != rsync.Terminated && state != rsync.Updated
					if _, there := have[r.Object]; !there && state == rsync.Instantiated {
						w.t.Errorf("%s is Instantiated, and %s lacks %s", w.ids[i], cluster, r.Object)
					}
				}
			}
		}
		for o := range have {
			if !explained[o] {
				w.t.Errorf("%s has %s, which no context holds", cluster, o)
			}
		}
	}
}

// terminateAll terminates all contexts, and checks that neither objects nor keys are left.
func (w *world) terminateAll() {
	for _, id := range w.ids {
		if state := w.status(id).State; state != rsync.Created && state != rsync.Terminated {
			w.done(w.engine.Terminate(w.t.Context(), id))
		}
	}
	for c := range 3 {
		w.shows(fmt.Sprint("c", c), "")
	}
	for _, id := range w.ids {
		if err := w.engine.Delete(w.t.Context(), id); err != nil {
			w.t.Error(err)
		}
	}
	result, err := w.memory.Range(w.t.Context(), "/")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kv := range result.KVs {
		if !strings.HasPrefix(kv.Key, "/rsync/engine/") {
			w.t.Errorf("%s is left", kv.Key)
		}
	}
}
