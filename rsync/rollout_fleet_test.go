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

// TestRolloutIsLinearInClusters: ten times as many clusters take ten times as long, and not a
// hundred. With few clusters in progress the engine decides thousands of times in one rollout.
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
