// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestRolloutIsLinearInClusters: ten times as many clusters take ten times as long, and not a hundred.
// With few clusters in progress the engine decides thousands of times in one rollout.
func TestRolloutIsLinearInClusters(t *testing.T) {
	small, large := timeRollout(t, 400), timeRollout(t, 4000)
	t.Logf("400 clusters took %s, 4,000 took %s", small, large)
	if limit := 40 * small; large > limit {
		t.Errorf("4,000 clusters took %s, 400 took %s", large, small)
	}
}

// timeRollout returns the shortest time of three rollouts over n clusters.
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
		began := time.Now()
		go func() { ended <- engine.Start(ctx) }()
		if _, err := engine.Wait(ctx, ref); err != nil {
			t.Error(err)
		}
		best = min(best, time.Since(began))
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return best
}
