// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// TestOwnBatchesNeedNoQuery checks that a follower receives the batches of its own Store without
// queries, and those of another Store with one.
func TestOwnBatchesNeedNoQuery(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	options := pgstore.Options{ConnString: server.Database(t), PollInterval: time.Hour}
	s := open(t, options)
	f := follow(t, s)
	f.next(t)
	const lastQuery = `SELECT (extract(epoch FROM query_start) * 1000000)::bigint FROM pg_stat_activity
		WHERE query LIKE '%LATERAL%' AND pid <> pg_backend_pid()`
	receive := func(value string) {
		t.Helper()
		if batch := f.next(t); len(batch) != 1 || string(batch[0].Value) != value {
			t.Fatalf("the follower received %v, want %s", batch, value)
		}
	}
	apply(t, s, set("a", "0"))
	receive("0") // from now on it waits for batches
	before := query(t, options.ConnString, lastQuery)
	for i := range 100 {
		apply(t, s, set("a", fmt.Sprint(i)))
		receive(fmt.Sprint(i))
	}
	if after := query(t, options.ConnString, lastQuery); after != before {
		t.Error("the follower has queried the batches of its own Store")
	}
	apply(t, open(t, options), set("a", "other"))
	receive("other")
	if after := query(t, options.ConnString, lastQuery); after == before {
		t.Error("the follower has not queried the batch of the other Store")
	}
}

// TestOwnAndOtherBatches checks that all followers receive the same batches in the same order, while
// several Stores write at random moments, and some batches do not fit in the memory for a follower.
func TestOwnAndOtherBatches(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	const stores, batches = 3, 60
	options := pgstore.Options{ConnString: server.Database(t)}
	large := bytes.Repeat([]byte("x"), pgstore.MaxOwnBytes/3)
	var writers errgroup.Group
	var writing []*pgstore.Store
	var following []*followed
	for range stores {
		s := open(t, options)
		f := follow(t, s)
		f.next(t)
		writing, following = append(writing, s), append(following, f)
	}
	for i, s := range writing {
		writers.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range batches {
				change := set(fmt.Sprintf("%d/%d", i, n), "1")
				switch random.IntN(10) {
				case 0:
					change.Value = large
				case 1: // a pause
					if err := s.Healthy(t.Context()); err != nil {
						return err
					}
				}
				if err := s.Apply(t.Context(), []work.Change{change}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	received := make([][]string, stores)
	for range stores * batches {
		for i, f := range following {
			batch := f.next(t)
			received[i] = append(received[i], fmt.Sprintf("%s: %d bytes", batch[0].Key, len(batch[0].Value)))
		}
	}
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	for i := 1; i < stores; i++ {
		if diff := cmp.Diff(received[0], received[i]); diff != "" {
			t.Errorf("followers 0 and %d (-0 +%d):\n%s", i, i, diff)
		}
	}
	own := map[string]bool{}
	for _, batch := range received[0] {
		own[batch] = true
	}
	if len(own) != stores*batches {
		t.Errorf("the followers received %d different batches, want %d", len(own), stores*batches)
	}
}
