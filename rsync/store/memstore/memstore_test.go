// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return memstore.New(memstore.Options{}) })
}

// TestFaultsConformance: a Faults store without a plan meets the contract of a store.
func TestFaultsConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return storetest.NewFaults(memstore.New(memstore.Options{}), nil)
	})
}

// TestHistory: a watch that begins before the stored history returns an error.
func TestHistory(t *testing.T) {
	s := memstore.New(memstore.Options{History: 10})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 100 {
		if _, err := s.Txn(ctx, nil, []store.Op{store.Put("/a/", nil)}); err != nil {
			t.Fatal(err)
		}
	}
	watch := s.Watch(ctx, "/", 1)
	if message := <-watch; !errors.Is(message.Err, store.ErrCompacted) {
		t.Errorf("from the first revision: %+v", message)
	}
	if _, open := <-watch; open {
		t.Error("the watch goes on after its error")
	}
	if message := <-s.Watch(ctx, "/", 100); message.Err != nil || message.Revision != 100 {
		t.Errorf("from the last revision: %+v", message)
	}
	s.Compact()
	if message := <-s.Watch(ctx, "/", 100); !errors.Is(message.Err, store.ErrCompacted) {
		t.Errorf("after compaction: %+v", message)
	}
}

// TestRevision: a store continues at the revision of another store.
func TestRevision(t *testing.T) {
	s := memstore.New(memstore.Options{Revision: 100})
	result, err := s.Txn(t.Context(), nil, []store.Op{store.Put("/a/", nil)})
	if err != nil || result.Revision != 101 {
		t.Errorf("%+v, %v", result, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if message := <-s.Watch(ctx, "/", 100); !errors.Is(message.Err, store.ErrCompacted) {
		t.Errorf("before its time: %+v", message)
	}
	if message := <-s.Watch(ctx, "/", 101); message.Err != nil || message.Revision != 101 {
		t.Errorf("from its first revision: %+v", message)
	}
}

// TestLeaseTime: a lease ends exactly after its TTL, to the nanosecond.
func TestLeaseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		lease, err := s.Grant(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Txn(t.Context(), nil, []store.Op{store.PutLeased("/a/", nil, lease)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - 1)
		if err := s.KeepAlive(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - 1)
		if kv, _ := s.Get(t.Context(), "/a/"); !kv.Exists() {
			t.Error("it ended early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if kv, _ := s.Get(t.Context(), "/a/"); kv.Exists() {
			t.Error("it did not end")
		}
	})
}
