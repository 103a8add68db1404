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
	"strconv"
	"strings"
	"sync"
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

// watched follows a rollout by what is stored, and demands after each change that no more clusters are in
// progress than may be, that groups come in order, and that none begins past the failures that may be.
type watched struct {
	t        *testing.T
	spec     rsync.Rollout
	seq      uint64
	clusters []appcontext.ClusterID
	statuses map[appcontext.ClusterID]rsync.ClusterStatus
	mu       sync.Mutex
}

// follow returns what waits until the watch has ended. It returns when the watch has begun: what a watch
// begins with is in the order of its keys, and does not show which cluster failed before another began.
func (w *watched) follow(ctx context.Context, e *rsync.Engine, ref rsync.EventRef) func() {
	w.seq, w.statuses = ref.Seq, map[appcontext.ClusterID]rsync.ClusterStatus{}
	done, begun := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer close(done)
		defer begin()
		for c, err := range e.Watch(ctx, ref.AppContextID, 0) {
			begin()
			if err != nil {
				w.t.Errorf("watch: %v", err)
				return
			}
			if c.Cluster != nil && c.Cluster.Seq == w.seq {
				w.saw(*c.Cluster)
			}
			if c.Element != nil && c.Element.Seq == w.seq && c.Element.Status.Final() {
				return
			}
		}
	}()
	<-begun
	return func() { <-done }
}

// saw takes in a status. Those of one transaction come one after the other, ends before begins.
func (w *watched) saw(s rsync.ClusterStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.statuses[s.Cluster]
	w.statuses[s.Cluster] = s
	if before.Begun.IsZero() && !s.Begun.IsZero() {
		w.begins(s.Cluster)
	}
}

func final(s rsync.ClusterStatus) bool {
	return s.Phase == rsync.PhaseDone || s.Phase == rsync.PhaseSkipped || s.Phase == rsync.PhaseFailed
}

func (w *watched) begins(cluster appcontext.ClusterID) {
	failed := 0
	for _, s := range w.statuses {
		if s.Phase == rsync.PhaseFailed && !s.Begun.IsZero() {
			failed++
		}
	}
	if most := count(w.spec.MaxFailures, len(w.clusters), 0); failed > most {
		w.t.Errorf("%s begins when %d clusters have failed, and %d may", cluster, failed, most)
	}
	for _, g := range w.groups() {
		at := slices.Index(g.Clusters, cluster)
		if at < 0 {
			for _, c := range g.Clusters {
				if !final(w.statuses[c]) {
					w.t.Errorf("%s begins before %s of an earlier group has ended", cluster, c)
				}
			}
			continue
		}
		running := 0
		for _, c := range g.Clusters {
			if s := w.statuses[c]; !s.Begun.IsZero() && !final(s) {
				running++
			}
		}
		if most := max(count(cmp.Or(g.MaxConcurrency, w.spec.MaxConcurrency), len(g.Clusters), len(g.Clusters)), 1); running > most {
			w.t.Errorf("%s begins, and %d clusters are in progress where %d may be", cluster, running, most)
		}
		return
	}
}

// groups has the clusters in no group as the last one.
func (w *watched) groups() []rsync.RolloutGroup {
	out := slices.Clone(w.spec.Groups)
	rest := slices.DeleteFunc(slices.Clone(w.clusters), func(c appcontext.ClusterID) bool {
		return slices.ContainsFunc(w.spec.Groups, func(g rsync.RolloutGroup) bool { return slices.Contains(g.Clusters, c) })
	})
	return append(out, rsync.RolloutGroup{Clusters: rest})
}

func count(limit string, total, otherwise int) int {
	if limit == "" {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimSuffix(limit, "%"))
	if err != nil {
		panic(err)
	}
	if strings.HasSuffix(limit, "%") {
		return n * total / 100
	}
	return n
}

// TestRolloutModel: rollouts on engines that crash at random writes, over clusters that refuse, hang and
// become ready late, while someone pauses, resumes, approves and aborts. What is stored never breaks the
// limits, no cluster is touched before it is stored that it began, and all clusters converge on what the last
// event says.
func TestRolloutModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "clusters")
		spec := drawRollout(rt, n)
		seed := rapid.Uint64().Draw(rt, "seed")
		update := rapid.Bool().Draw(rt, "update")
		synctest.Test(t, func(t *testing.T) {
			newRolloutWorld(t, n, spec, seed).play(update)
			if t.Failed() {
				t.Logf("%d clusters, seed %d, update %v: %+v", n, seed, update, spec)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func drawRollout(rt *rapid.T, n int) rsync.Rollout {
	limits := rapid.SampledFrom([]string{"", "1", "2", "50%", "1%"})
	failures := rapid.SampledFrom([]string{"", "0", "2", "50%", "100%"})
	out := rsync.Rollout{
		MaxConcurrency: limits.Draw(rt, "concurrency"), MaxFailures: failures.Draw(rt, "failures"), ProgressDeadline: time.Minute,
		RollbackOnFailure: rapid.Bool().Draw(rt, "rollback"), MinSuccessTime: rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(rt, "soak"),
	}
	all := rapid.Permutation(edgeRange(n)).Draw(rt, "order")
	for i := range rapid.IntRange(0, 3).Draw(rt, "groups") {
		size := rapid.IntRange(0, len(all)).Draw(rt, "size")
		g := rsync.RolloutGroup{
			Name: fmt.Sprint("g", i), MaxConcurrency: limits.Draw(rt, "concurrency"), ApproveBefore: rapid.Bool().Draw(rt, "before"),
			ApproveAfter: rapid.Bool().Draw(rt, "after"), Wait: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "wait"),
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
	n     int
	spec  rsync.Rollout
	rand  *rand.Rand
	watch *watched
	ref   rsync.EventRef
}

func newRolloutWorld(t *testing.T, n int, spec rsync.Rollout, seed uint64) *rolloutWorld {
	memory := memstore.New(memstore.Options{})
	w := &rolloutWorld{
		scene: &scene{t: t, memory: memory, clusters: fake.New()}, n: n, spec: spec, rand: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable
		watch: &watched{t: t, spec: spec, clusters: edgeRange(n)},
	}
	var err error
	if w.engine, err = rsync.New(memory, w.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	w.create("v1", fleet(n, "1"))
	w.create("v2", fleet(n, "2"))
	return w
}

// start has engines run, one after the other, until the function that it returns is called.
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

// engines run one after the other, each until it crashes at a random write.
func (w *rolloutWorld) engines(ctx context.Context, crashes int, random *rand.Rand) {
	for ctx.Err() == nil {
		faults := storetest.NewFaults(w.memory, nil)
		if crashes > 0 {
			crashes--
			at := random.IntN(20)
			verdict := []storetest.Verdict{storetest.CrashBefore, storetest.CrashAfter}[random.IntN(2)]
			faults = storetest.NewFaults(w.memory, func(n int, _ []store.Op) storetest.Verdict {
				if n == at {
					return verdict
				}
				return storetest.Pass
			})
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

func (w *rolloutWorld) play(update bool) {
	ctx, id := w.t.Context(), "v1"
	if update {
		stop := w.start(0)
		w.done(w.engine.Instantiate(ctx, "v1"))
		stop()
		id = "v2"
	}
	w.trouble(id)
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

// trouble gives each cluster something that it does with what is applied for the context.
func (w *rolloutWorld) trouble(id string) {
	for _, c := range w.watch.clusters {
		cluster, what := w.clusters.Cluster(c.Provider, c.Name), w.rand.IntN(8)
		delay := time.Duration(w.rand.IntN(3000)) * time.Millisecond
		cluster.SetUnready(func(appcontext.Object) bool { return what == 1 })
		cluster.Intercept(func(v fake.Verb, batch connector.Batch) error {
			if v != fake.Apply || batch.AppContextID != id {
				return nil
			}
			if w.ref.AppContextID == id && w.tooEarly(c) {
				w.t.Errorf("%s is touched before it is stored that it began", c)
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

// tooEarly reports whether the rollout is in progress, and it is not stored that the cluster began.
func (w *rolloutWorld) tooEarly(c appcontext.ClusterID) bool {
	status, err := w.engine.Status(context.Background(), w.ref.AppContextID)
	if err != nil || status.Element(w.ref.Seq).Status != rsync.InProgress {
		return false
	}
	s := status.Cluster("web", c)
	return s == nil || s.Seq != w.ref.Seq || s.Begun.IsZero()
}

// interfere is what people do while a rollout runs, until it is done.
func (w *rolloutWorld) interfere(ctx context.Context) {
	for range 1000 {
		time.Sleep(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
		status, err := w.engine.RolloutStatus(ctx, w.ref)
		w.must(err)
		if status.Status.Final() {
			return
		}
		switch w.rand.IntN(12) {
		case 0:
			err = w.engine.Pause(ctx, w.ref)
		case 1, 2, 3:
			err = w.engine.Resume(ctx, w.ref)
		case 4:
			if w.rand.IntN(4) == 0 {
				err = w.engine.Abort(ctx, w.ref)
			}
		default:
			for _, g := range w.spec.Groups {
				for gate, has := range map[rsync.Gate]bool{rsync.BeforeGroup: g.ApproveBefore, rsync.AfterGroup: g.ApproveAfter} {
					if has && w.rand.IntN(3) == 0 {
						err = errors.Join(err, w.engine.Approve(ctx, w.ref, rsync.Approval{Group: g.Name, Gate: gate}))
					}
				}
			}
		}
		if err != nil && !errors.Is(err, rsync.ErrInvalidState) {
			w.t.Fatal(err)
		}
	}
	w.t.Error("the rollout does not end")
}

func (w *rolloutWorld) heal() {
	for _, c := range w.watch.clusters {
		cluster := w.clusters.Cluster(c.Provider, c.Name)
		cluster.Intercept(nil)
		cluster.SetUnready(nil)
	}
}

// converge demands that the clusters come to what the last event says: of the rollout, or of its rollback.
func (w *rolloutWorld) converge(id string, update bool) {
	status, err := w.engine.Status(context.Background(), w.ref.AppContextID)
	w.must(err)
	e := status.Element(w.ref.Seq)
	want := map[string]string{"v1": "1", "v2": "2"}[id]
	switch {
	case e.Rollback != nil && w.spec.RollbackOnFailure && e.Status == rsync.Error:
		if _, err := w.wait(*e.Rollback, nil); err != nil { // it may have come before the clusters were mended
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
			w.shows(fmt.Sprint("c", i+1), "x="+want)
		} else {
			w.shows(fmt.Sprint("c", i+1), "")
		}
	}
}

// repair does again what an event was for.
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

// TestRolloutFleet: a rollout over 1,000 clusters, of which some refuse and some do not answer, keeps within
// its limits, and goes on to its end or stops when too many have failed.
func TestRolloutFleet(t *testing.T) {
	const n = 1000
	for failing, complete := range map[int]bool{20: true, 200: false} {
		synctest.Test(t, func(t *testing.T) {
			spec := rsync.Rollout{
				Groups:         []rsync.RolloutGroup{{Name: "canary", Clusters: edgeRange(10), MaxFailures: "0"}},
				MaxConcurrency: "5%", MaxFailures: "3%", ProgressDeadline: time.Minute,
			}
			w := newRolloutWorld(t, n, spec, uint64(failing))
			ctx := t.Context()
			for i, c := range w.watch.clusters {
				cluster := w.clusters.Cluster(c.Provider, c.Name)
				cluster.SetDelay(time.Duration(w.rand.IntN(1000)) * time.Millisecond)
				if i >= 10 && i%(n/failing) == 0 {
					cluster.SetMode([]fake.Mode{fake.Refusing, fake.Unreachable}[w.rand.IntN(2)])
				}
			}
			w.ref = w.scene.ref(w.engine.Instantiate(ctx, "v1", rsync.WithRollout(spec)))
			followed := w.watch.follow(ctx, w.engine, w.ref)
			w.start(3)
			_, err := w.wait(w.ref, nil)
			if !errors.As(err, new(*rsync.EventError)) {
				t.Fatalf("it ended with %v", err)
			}
			followed()
			got := w.rollout()
			if begun := got.InProgress + got.Succeeded + got.Failed; (begun == n) != complete {
				t.Errorf("%d failing: of %d clusters %d began", failing, n, begun)
			}
			if most := 30 + 50; got.Failed > most {
				t.Errorf("%d failed: 30 may, and 50 were in progress at most", got.Failed)
			}
			t.Logf("%d failing: %+v", failing, got)
			for _, c := range w.watch.clusters {
				w.clusters.Cluster(c.Provider, c.Name).SetMode(fake.Works)
			}
		})
	}
}

// rollout sums up the groups.
func (w *rolloutWorld) rollout() (sum rsync.RolloutGroupStatus) {
	status, err := w.engine.RolloutStatus(context.Background(), w.ref)
	w.must(err)
	for _, g := range status.Groups {
		sum.Clusters += g.Clusters
		sum.InProgress += g.InProgress
		sum.Succeeded += g.Succeeded
		sum.Failed += g.Failed
	}
	return sum
}

// TestPauseHoldsAtOnce: after Pause or Abort has returned no cluster begins, also if the engine had decided
// that it does just before.
func TestPauseHoldsAtOnce(t *testing.T) {
	for name, act := range map[string]func(*rsync.Engine, context.Context, rsync.EventRef) error{"pause": (*rsync.Engine).Pause, "abort": (*rsync.Engine).Abort} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, clusters := memstore.New(memstore.Options{}), fake.New()
				s := &scene{t: t, memory: memory, clusters: clusters}
				var err error
				if s.engine, err = rsync.New(memory, clusters, rsync.Options{Name: "user"}); err != nil {
					t.Fatal(err)
				}
				s.create("v1", fleet(2, "1"))
				ref := s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
				once := false
				faults := storetest.NewFaults(memory, func(_ int, ops []store.Op) storetest.Verdict {
					for _, op := range ops {
						if strings.Contains(op.Key, "/status/") && strings.Contains(op.Key, "c2") && !once {
							once = true
							s.must(act(s.engine, t.Context(), ref))
						}
					}
					return storetest.Pass
				})
				_, stop := startEngine(t, faults, clusters, rsync.Options{})
				t.Cleanup(stop)
				time.Sleep(time.Minute)
				if s.expect(2, "1,"); !once {
					t.Error("the second cluster never came")
				}
				if name == "pause" {
					s.must(s.engine.Resume(t.Context(), ref))
					s.done(ref, nil)
				}
			})
		})
	}
}
