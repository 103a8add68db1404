// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for events that take a moment, on a loaded machine.
const patience = 2 * time.Minute

func open(t testing.TB, options pgstore.Options) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *pgstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// places returns the places of storetest: stores in one database.
func places(options pgstore.Options) func(t *testing.T) storetest.Opener {
	var number atomic.Int32
	return func(*testing.T) storetest.Opener {
		options := options
		options.Name = fmt.Sprint("store", number.Add(1))
		return func(t *testing.T) (work.Store, func()) {
			s := open(t, options)
			return s, func() { closeStore(t, s) }
		}
	}
}

func TestConformance(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	storetest.Run(t, places(pgstore.Options{ConnString: server.Database(t)}))
}

func TestReplicas(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	storetest.RunReplicas(t, func(t *testing.T) work.SharedStore { return open(t, pgstore.Options{ConnString: db}) })
}

func set(key, value string) work.Change { return work.Change{Key: key, Value: []byte(value)} }

func apply(t *testing.T, s work.Store, changes ...work.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), changes); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

func content(t *testing.T, s work.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := s.Load(t.Context(), func(key string, value []byte) error {
		all[key] = string(value)
		return nil
	}); err != nil {
		t.Fatalf("Load: %v", err)
	}
	return all
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// followed is what a follower has received.
type followed struct {
	batches chan []work.Change
	ended   chan error
	stop    context.CancelFunc
}

// follow follows a store until the end of the test.
func follow(t *testing.T, s work.SharedStore) *followed {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &followed{batches: make(chan []work.Change, 100_000), ended: make(chan error, 1), stop: cancel}
	go func() {
		f.ended <- s.Follow(ctx, "", nil, func(b work.Batch) error {
			f.batches <- b.Changes
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-f.ended:
			if err != nil && !errors.Is(err, pgstore.ErrClosed) {
				t.Errorf("Follow: %v", err)
			}
		case <-time.After(patience):
			t.Error("Follow does not return after its context has ended")
		}
	})
	return f
}

// next returns the next batch.
func (f *followed) next(t *testing.T) []work.Change {
	t.Helper()
	select {
	case batch := <-f.batches:
		return batch
	case err := <-f.ended:
		f.ended <- err
		t.Fatalf("Follow returned %v", err)
	case <-time.After(patience):
		t.Fatalf("no batch in %v", patience)
	}
	return nil
}
