// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestRolloutModel: random rollouts run on engines that crash at random writes. Clusters refuse,
// hang and become ready late. Meanwhile the rollout is paused, resumed, approved and aborted, also
// just before a write of an engine. With several apps on each cluster, a begin takes several
// transactions. The stored statuses never exceed the limits. No app is applied before its begin is
// stored. Each rollout ends, and ends as Aborted after an accepted Abort. All clusters converge on
// the last event.
func TestRolloutModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n, apps := rapid.IntRange(1, 8).Draw(rt, "clusters"), rapid.SampledFrom([]int{1, 7}).Draw(rt, "apps")
		spec := drawRollout(rt, n)
		seed := rapid.Uint64().Draw(rt, "seed")
		update := rapid.Bool().Draw(rt, "update")
		synctest.Test(t, func(t *testing.T) {
			newRolloutWorld(t, apps, n, spec, seed).play(update)
			if t.Failed() {
				t.Logf("%d clusters, %d apps, seed %d, update %v: %+v", n, apps, seed, update, spec)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func drawRollout(rt *rapid.T, n int) rsync.Rollout {
	limits := rapid.SampledFrom([]string{"", "", "1", "2", "50%", "1%"})
	failures := rapid.SampledFrom([]string{"", "0", "2", "50%", "100%"})
	out := rsync.Rollout{
		MaxConcurrency: limits.Draw(rt, "concurrency"), MaxFailures: failures.Draw(rt, "failures"),
		ProgressDeadline:  time.Minute,
		RollbackOnFailure: rapid.Bool().Draw(rt, "rollback"),
		MinSuccessTime:    rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(rt, "soak"),
	}
	all := rapid.Permutation(edgeRange(n)).Draw(rt, "order")
	for i := range rapid.IntRange(0, 3).Draw(rt, "groups") {
		size := rapid.IntRange(0, len(all)).Draw(rt, "size")
		g := rsync.RolloutGroup{
			Name: fmt.Sprint("g", i), MaxConcurrency: limits.Draw(rt, "concurrency"),
			ApproveBefore: rapid.Bool().Draw(rt, "before"),
			ApproveAfter:  rapid.Bool().Draw(rt, "after"), Wait: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt,
				"wait"),
		}
		g.Clusters, all = all[:size], all[size:]
		out.Groups = append(out.Groups, g)
	}
	return out
}

func edgeRange(n int) (out []appcontext.ClusterID) {
	for i := range n {
		out = append(out, edge(fmt.Sprint("c", i+1))...)
	}
	return out
}

type rolloutWorld struct {
	*scene
	apps    int // on each cluster
	n       int
	spec    rsync.Rollout
	rand    *rand.Rand
	watch   *watched
	ref     rsync.EventRef
	people  bool        // plans also change the rollout just before a write
	aborted atomic.Bool // an Abort was accepted
}

func newRolloutWorld(t *testing.T, apps, n int, spec rsync.Rollout, seed uint64) *rolloutWorld {
	options := memstore.Options{}
	if apps > 1 {
		options.MaxTxnOps = 20 // one transaction has the statuses of ten apps
	}
	memory := memstore.New(options)
	w := &rolloutWorld{
		scene: &scene{t: t, memory: memory, clusters: fake.New()}, apps: apps, n: n, spec: spec, rand: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable
		watch: &watched{t: t, spec: spec, apps: apps, clusters: edgeRange(n)},
	}
	var err error
	if w.engine, err = rsync.New(memory, w.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	w.create("v1", fleetOf(apps, n, "1"))
	w.create("v2", fleetOf(apps, n, "2"))
	return w
}

// fleetOf returns the text of a context with apps web, web1, … on each of the clusters c1 to cN.
func fleetOf(apps, n int, value string) string {
	out := fleet(n, value)
	for a := 1; a < apps; a++ {
		out += strings.ReplaceAll(strings.ReplaceAll("; "+fleet(n, value), "web@", fmt.Sprintf("web%d@", a)), " x=",
			fmt.Sprintf(" x%d=", a))
	}
	return out
}

// value returns the objects of a cluster that has all apps with a value, in the format of objects.
func (w *rolloutWorld) value(of string) string {
	out := []string{"x=" + of}
	for a := 1; a < w.apps; a++ {
		out = append(out, fmt.Sprintf("x%d=%s", a, of))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// start runs engines, one after another, until the returned function is called.
func (w *rolloutWorld) start(crashes int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	random := rand.New(rand.NewPCG(w.rand.Uint64(), 2)) //nolint:gosec // repeatable
	go func() {
		defer close(ended)
		w.engines(ctx, crashes, random)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(stop)
	return stop
}

// engines runs one engine after another until ctx ends: when an engine crashes, the next engine
// starts. The first engines have random plans.
func (w *rolloutWorld) engines(ctx context.Context, crashes int, random *rand.Rand) {
	for ctx.Err() == nil {
		faults := storetest.NewFaults(w.memory, nil)
		if crashes > 0 {
			crashes--
			faults = storetest.NewFaults(w.memory, w.plan(random))
		}
		engine, err := rsync.New(faults, w.clusters, rsync.Options{})
		if err != nil {
			w.t.Error(err)
			return
		}
		engineCtx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- engine.Start(engineCtx) }()
		select {
		case <-faults.Crashed():
		case <-ctx.Done():
		}
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

// plan returns a function that disturbs one random write. The engine crashes, the store fails, or
// the rollout changes just before the write. Writes that begin clusters, and the write that ends
// the event, are selected more often.
func (w *rolloutWorld) plan(random *rand.Rand) func(int, []store.Op) storetest.Verdict {
	at, of, what := 1+random.IntN(20), random.IntN(3), random.IntN(5)
	if !w.people {
		what = 2 + random.IntN(2)
	}
	counts := func([]store.Op) bool { return true }
	switch of {
	case 0:
		at, counts = 1, ends
	case 1:
		at, counts = 1+at%3, begins
	}
	act := rand.New(rand.NewPCG(random.Uint64(), 3)) //nolint:gosec // repeatable
	return func(_ int, ops []store.Op) storetest.Verdict {
		if counts(ops) {
			at--
		}
		if at != 0 {
			return storetest.VerdictPass
		}
		at = -1
		switch what {
		case 0:
			w.abort(context.Background())
		case 1:
			w.act(context.Background(), act)
		default:
			return []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
				storetest.VerdictFailBefore}[what-2]
		}
		return storetest.VerdictPass
	}
}

// ends reports whether a transaction ends the first event of a context as Done.
func ends(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(o store.Op) bool {
		return strings.HasSuffix(o.Key, "/queue/0000000000000001/") && strings.Contains(string(o.Value), `"status":"Done"`)
	})
}

// begins reports whether a transaction begins clusters.
func begins(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(o store.Op) bool {
		return strings.Contains(o.Key, "/status/") && strings.Contains(string(o.Value), `"phase":"Progressing"`)
	})
}

func (w *rolloutWorld) play(update bool) {
	ctx, id := w.t.Context(), "v1"
	if update {
		stop := w.start(0)
		w.done(w.engine.Instantiate(ctx, "v1"))
		stop()
		id = "v2"
	}
	w.trouble(id)
	w.people = true
	if update {
		w.ref = w.scene.ref(w.engine.Update(ctx, "v1", "v2", rsync.WithRollout(w.spec)))
	} else {
		w.ref = w.scene.ref(w.engine.Instantiate(ctx, "v1", rsync.WithRollout(w.spec)))
	}
	followed := w.watch.follow(ctx, w.engine, w.ref)
	w.start(w.rand.IntN(6))
	w.interfere(ctx)
	followed()
	w.heal()
	w.converge(id, update)
}

// trouble selects a random behaviour for each cluster: it refuses the objects of the context,
// delays them, leaves them unready, or works. It also checks that no app is applied before its
// begin is stored.
func (w *rolloutWorld) trouble(id string) {
	for _, c := range w.watch.clusters {
		cluster, what := w.clusters.Cluster(c.Provider, c.Name), w.rand.IntN(8)
		delay := time.Duration(w.rand.IntN(3000)) * time.Millisecond
		cluster.SetUnready(func(appcontext.Object) bool { return what == 1 })
		cluster.Intercept(func(v fake.Verb, batch connector.Batch) error {
			if v != fake.VerbApply || batch.AppContextID != id {
				return nil
			}
			if w.ref.AppContextID == id && w.tooEarly(batch.App, c) {
				w.t.Errorf("%s on %s is touched before it is stored that it began", batch.App, c)
			}
			switch what {
			case 0:
				return &connector.Error{Class: connector.ErrTerminal, Err: errors.New("denied")}
			case 2:
				return &connector.Error{Class: connector.ErrRetryable, Err: errors.New("not now")}
			case 3:
				time.Sleep(delay)
			}
			return nil
		})
	}
}

// tooEarly reports whether the rollout is in progress, but the begin of an app is not stored.
func (w *rolloutWorld) tooEarly(app string, c appcontext.ClusterID) bool {
	status, err := w.engine.Status(context.Background(), w.ref.AppContextID)
	if err != nil || status.Element(w.ref.Seq).Status != rsync.InProgress {
		return false
	}
	s := status.Cluster(app, c)
	return s == nil || s.Seq != w.ref.Seq || s.Begun.IsZero()
}

// interfere changes the rollout at random while it runs. After 40 changes it opens all gates, and
// the rollout must end.
func (w *rolloutWorld) interfere(ctx context.Context) {
	for i := range 1000 {
		time.Sleep(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
		status, err := w.engine.RolloutStatus(ctx, w.ref)
		w.must(err)
		if status.Status.Final() {
			return
		}
		if i < 40 {
			w.act(ctx, w.rand)
		} else {
			w.open(ctx)
		}
		if w.t.Failed() {
			return
		}
	}
	w.t.Fatal("the rollout does not end")
}

// open resumes the rollout and approves all of its gates.
func (w *rolloutWorld) open(ctx context.Context) {
	err := w.engine.Resume(ctx, w.ref)
	for _, g := range w.spec.Groups {
		for _, gate := range gatesOf(g) {
			err = cmp.Or(err, w.engine.Approve(ctx, w.ref, rsync.Approval{Group: g.Name, Gate: gate}))
		}
	}
	if err != nil && !errors.Is(err, rsync.ErrInvalidState) {
		w.t.Error(err)
	}
}

// act pauses, resumes, aborts or approves the rollout at random.
func (w *rolloutWorld) act(ctx context.Context, random *rand.Rand) {
	var err error
	switch random.IntN(12) {
	case 0:
		err = w.engine.Pause(ctx, w.ref)
	case 1, 2, 3:
		err = w.engine.Resume(ctx, w.ref)
	case 4:
		if random.IntN(4) == 0 {
			w.abort(ctx)
		}
	default:
		for _, g := range w.spec.Groups {
			for _, gate := range gatesOf(g) {
				if random.IntN(3) == 0 {
					err = errors.Join(err, w.engine.Approve(ctx, w.ref, rsync.Approval{Group: g.Name, Gate: gate}))
				}
			}
		}
	}
	if err != nil && !errors.Is(err, rsync.ErrInvalidState) {
		w.t.Error(err)
	}
}

func (w *rolloutWorld) abort(ctx context.Context) {
	switch err := w.engine.Abort(ctx, w.ref); {
	case err == nil:
		w.aborted.Store(true)
	case !errors.Is(err, rsync.ErrInvalidState):
		w.t.Error(err)
	}
}

func gatesOf(g rsync.RolloutGroup) (out []rsync.Gate) {
	if g.ApproveBefore {
		out = append(out, rsync.GateBeforeGroup)
	}
	if g.ApproveAfter {
		out = append(out, rsync.GateAfterGroup)
	}
	return out
}

func (w *rolloutWorld) heal() {
	for _, c := range w.watch.clusters {
		cluster := w.clusters.Cluster(c.Provider, c.Name)
		cluster.Intercept(nil)
		cluster.SetUnready(nil)
	}
}

// converge checks that the clusters have the objects of the last event: the rollout, or its
// rollback.
func (w *rolloutWorld) converge(id string, update bool) {
	status, err := w.engine.Status(context.Background(), w.ref.AppContextID)
	w.must(err)
	e := status.Element(w.ref.Seq)
	want := map[string]string{"v1": "1", "v2": "2"}[id]
	if w.aborted.Load() && e.Reason != rsync.ReasonAborted {
		w.t.Errorf("the rollout was aborted, and ended with %s %s", e.Status, e.Reason)
	}
	switch {
	case e.Rollback != nil && w.spec.RollbackOnFailure && e.Status == rsync.Error:
		if _, err := w.wait(*e.Rollback, nil); err != nil { // it may have failed before the clusters were repaired
			w.done(w.repair(*e.Rollback))
		}
		want = ""
		if update {
			want = "1"
		}
	case e.Status != rsync.Done:
		w.done(w.repair(w.ref))
	default:
		w.done(w.ref, nil)
	}
	for i := range w.n {
		if want != "" {
			w.shows(fmt.Sprint("c", i+1), w.value(want))
		} else {
			w.shows(fmt.Sprint("c", i+1), "")
		}
	}
}

// repair queues an event again.
func (w *rolloutWorld) repair(ref rsync.EventRef) (rsync.EventRef, error) {
	status, err := w.engine.Status(context.Background(), ref.AppContextID)
	w.must(err)
	switch e := status.Element(ref.Seq); e.Event {
	case rsync.Update:
		return w.engine.Update(context.Background(), e.UCID, ref.AppContextID)
	case rsync.Terminate:
		return w.engine.Terminate(context.Background(), ref.AppContextID)
	}
	return w.engine.Instantiate(context.Background(), ref.AppContextID)
}
