// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// recordSize is the size of a record of a small work with a status, in bytes.
const recordSize = 1500

func value(random *rand.ChaCha8) []byte {
	value := make([]byte, recordSize)
	_, _ = random.Read(value) // a generator returns no error
	return value
}

func key(i int) string { return fmt.Sprintf("work/cluster%d/5f0f7b1e-0c41-4a93-9d5b-%012d", i%1000, i) }

// BenchmarkApply measures batches that are on the disk before Apply returns. The floor writes the
// same records to a table with one prepared INSERT, without a feed, a condition or a notification.
func BenchmarkApply(b *testing.B) {
	server := postgres.Start(b, postgres.Options{Sync: true})
	db := server.Database(b)
	floor, err := pgx.Connect(b.Context(), db)
	if err != nil {
		b.Fatal(err)
	}
	defer floor.Close(b.Context())
	server.Exec(b, databaseOf(db), "CREATE TABLE floor (key text PRIMARY KEY, value bytea NOT NULL)")
	s := open(b, pgstore.Options{ConnString: db})
	for _, size := range []int{1, 16, 256} {
		benchmarkBatches(b, fmt.Sprintf("floor/batch=%d", size), size, func(changes []work.Change) error {
			keys, values := make([]string, size), make([][]byte, size)
			for i, c := range changes {
				keys[i], values[i] = c.Key, c.Value
			}
			_, err := floor.Exec(b.Context(), `INSERT INTO floor SELECT * FROM unnest($1::text[], $2::bytea[])
				ON CONFLICT (key) DO UPDATE SET value = excluded.value`, keys, values)
			return err
		})
		benchmarkBatches(b, fmt.Sprintf("store/batch=%d", size), size, func(changes []work.Change) error {
			return s.Apply(b.Context(), changes)
		})
	}
}

func benchmarkBatches(b *testing.B, name string, size int, apply func([]work.Change) error) {
	b.Run(name, func(b *testing.B) {
		random := rand.NewChaCha8([32]byte{})
		value := value(random)
		next := 0
		b.ReportAllocs()
		for b.Loop() {
			changes := make([]work.Change, size)
			for i := range changes {
				next++
				changes[i] = work.Change{Key: key(next % 100_000), Value: value}
			}
			if err := apply(changes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
	})
}

// BenchmarkLoad measures Load. With -short, it measures only the small sizes.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		if n > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			server := postgres.Start(b, postgres.Options{})
			s := open(b, pgstore.Options{ConnString: server.Database(b), FeedBytes: 1 << 20})
			fill(b, s, n)
			b.ReportAllocs()
			for b.Loop() {
				count := 0
				if err := s.Load(b.Context(), func(string, []byte) error {
					count++
					return nil
				}); err != nil || count != n {
					b.Fatalf("%d records, %v", count, err)
				}
			}
			b.ReportMetric(float64(n)/(b.Elapsed().Seconds()/float64(b.N)), "records/s")
		})
	}
}

func fill(b *testing.B, s *pgstore.Store, n int) {
	b.Helper()
	random := rand.NewChaCha8([32]byte{})
	for done := 0; done < n; {
		changes := make([]work.Change, min(1000, n-done))
		for i := range changes {
			changes[i] = work.Change{Key: key(done), Value: value(random)}
			done++
		}
		if err := s.Apply(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
}

// BenchmarkFollow measures the time from the beginning of Apply until a follower has the batch.
func BenchmarkFollow(b *testing.B) {
	server := postgres.Start(b, postgres.Options{Sync: true})
	s := open(b, pgstore.Options{ConnString: server.Database(b)})
	batches := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Follow(b.Context(), "", nil, func(work.Batch) error {
			batches <- time.Now()
			return nil
		})
	}()
	<-batches
	random := rand.NewChaCha8([32]byte{})
	for i := 0; b.Loop(); i++ {
		if err := s.Apply(b.Context(), []work.Change{{Key: key(i % 1000), Value: value(random)}}); err != nil {
			b.Fatal(err)
		}
		<-batches
	}
	_ = s.Close() // returns nil
	if err := <-ended; !errors.Is(err, pgstore.ErrClosed) {
		b.Error(err)
	}
}

// BenchmarkFollowWhole measures how long a follower reads the whole content.
func BenchmarkFollowWhole(b *testing.B) {
	const n = 100_000
	server := postgres.Start(b, postgres.Options{})
	s := open(b, pgstore.Options{ConnString: server.Database(b), FeedBytes: 1 << 20})
	fill(b, s, n)
	b.ReportAllocs()
	for b.Loop() {
		enough, count := errors.New("enough"), 0
		if err := s.Follow(b.Context(), "", nil, func(batch work.Batch) error {
			if count += len(batch.Changes); batch.Position == "" {
				return nil
			}
			return enough
		}); !errors.Is(err, enough) || count != n {
			b.Fatalf("%d records, %v", count, err)
		}
	}
	b.ReportMetric(n/(b.Elapsed().Seconds()/float64(b.N)), "records/s")
}
