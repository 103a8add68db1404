// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestRolloutIsLinearInClusters: the time of a rollout is linear in the number of clusters, not
// quadratic. With few clusters in progress, the engine decides thousands of times in one rollout.
func TestRolloutIsLinearInClusters(t *testing.T) {
	n := 400
	if testing.Short() || raceEnabled {
		n = 100
	}
	small, large := timeRollout(t, n), timeRollout(t, 10*n)
	t.Logf("%d clusters took %s, ten times as many took %s", n, small, large)
	if large > 30*small+50*time.Millisecond {
		t.Errorf("%d clusters took %s, ten times as many took %s", n, small, large)
	}
}

// timeRollout returns the shortest processor time of three rollouts over n clusters.
func timeRollout(t *testing.T, n int) time.Duration {
	t.Helper()
	best := time.Hour
	for range 3 {
		engine, err := rsync.New(memstore.New(memstore.Options{}), fake.New(), rsync.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := engine.Create(ctx, parse(t, "v1", fleet(n, "1"))); err != nil {
			t.Fatal(err)
		}
		rollout := rsync.Rollout{MaxConcurrency: "5", ProgressDeadline: time.Hour, Until: "Deployed"}
		ref, err := engine.Instantiate(ctx, "v1", rsync.WithRollout(rollout))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		began := processor(t)
		go func() { ended <- engine.Start(ctx) }()
		if _, err := engine.Wait(ctx, ref); err != nil {
			t.Error(err)
		}
		best = min(best, processor(t)-began)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return best
}

// TestRolloutFleet: a rollout over 1,000 clusters stays within its limits while some clusters
// refuse or do not answer. It completes, or stops after too many failures.
func TestRolloutFleet(t *testing.T) {
	const n = 1000
	for failing, complete := range map[int]bool{20: true, 200: false} {
		synctest.Test(t, func(t *testing.T) {
			spec := rsync.Rollout{
				Groups:         []rsync.RolloutGroup{{Name: "canary", Clusters: edgeRange(10), MaxFailures: "0"}},
				MaxConcurrency: "5%", MaxFailures: "3%", ProgressDeadline: time.Minute,
			}
			w := newRolloutWorld(t, 1, n, spec, uint64(failing))
			ctx := t.Context()
			for i, c := range w.watch.clusters {
				cluster := w.clusters.Cluster(c.Provider, c.Name)
				cluster.SetDelay(time.Duration(w.rand.IntN(1000)) * time.Millisecond)
				if i >= 10 && i%(n/failing) == 0 {
					cluster.SetMode([]fake.Mode{fake.ModeRefusing, fake.ModeUnreachable}[w.rand.IntN(2)])
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
				w.clusters.Cluster(c.Provider, c.Name).SetMode(fake.ModeWorks)
			}
		})
	}
}

// rollout returns the sum of the statuses of all groups.
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
