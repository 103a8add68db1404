// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest tests implementations of package store, and programs that use them.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.New(…) })
//	}
//
// [Faults] wraps a store. It fails, "crashes" or delays calls as a test requires.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/rsync/store"
)

// patience limits the time until an expected result.
const patience = time.Minute

// Run tests a store against the contract of package store. Each test calls newStore, which must
// return an empty store. The test uses the store until the test ends. Run takes some seconds,
// because it waits for leases.
func Run(t *testing.T, newStore func(t *testing.T) store.Store) {
	tests := map[string]func(*testing.T, store.Store){
		"GetAndPut":       testGetAndPut,
		"Compare":         testCompare,
		"Delete":          testDelete,
		"Range":           testRange,
		"WatchPast":       testWatchPast,
		"WatchNow":        testWatchNow,
		"WatchAtomic":     testWatchAtomic,
		"WatchEnds":       testWatchEnds,
		"LeaseEnds":       testLeaseEnds,
		"LeaseIsRenewed":  testLeaseIsRenewed,
		"LeaseIsRevoked":  testLeaseIsRevoked,
		"TooLarge":        testTooLarge,
		"Cancelled":       testCancelled,
		"ConcurrentAdds":  testConcurrentAdds,
		"NothingHalfDone": testNothingHalfDone,
		"OneKeyTwice":     testOneKeyTwice,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

func txn(t *testing.T, s store.Store, compares []store.Compare, ops ...store.Op) store.TxnResult {
	t.Helper()
	result, err := s.Txn(t.Context(), compares, ops)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func get(t *testing.T, s store.Store, key string) store.KeyValue {
	t.Helper()
	kv, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func testGetAndPut(t *testing.T, s store.Store) {
	if kv := get(t, s, "/a/"); kv.Exists() || kv.Key != "/a/" || kv.ModRevision != 0 {
		t.Errorf("a key that is not there: %+v", kv)
	}
	first := txn(t, s, nil, store.Put("/a/", []byte("1")))
	second := txn(t, s, nil, store.Put("/a/", []byte("2")))
	if !first.Succeeded || second.Revision <= first.Revision {
		t.Errorf("revisions %d and %d do not grow", first.Revision, second.Revision)
	}
	want := store.KeyValue{Key: "/a/", Value: []byte("2"), CreateRevision: first.Revision, ModRevision: second.Revision}
	if diff := cmp.Diff(want, get(t, s, "/a/")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func testCompare(t *testing.T, s store.Store) {
	created := txn(t, s, []store.Compare{store.Absent("/a/")}, store.Put("/a/", []byte("1")))
	refused := txn(t, s, []store.Compare{store.Absent("/a/"), store.Absent("/b/")}, store.Put("/b/", nil))
	if refused.Succeeded || len(refused.Current) != 2 || string(refused.Current[0].Value) != "1" ||
		refused.Current[1].Exists() {
		t.Errorf("a condition that is not true: %+v", refused)
	}
	if get(t, s, "/b/").Exists() {
		t.Error("a transaction that did not succeed wrote")
	}
	kv := get(t, s, "/a/")
	if !txn(t, s, []store.Compare{store.Unchanged(kv)}, store.Put("/a/", []byte("2"))).Succeeded {
		t.Error("an unchanged key is not unchanged")
	}
	if txn(t, s, []store.Compare{store.Unchanged(kv)}, store.Put("/a/", []byte("3"))).Succeeded {
		t.Error("a changed key is unchanged")
	}
	if !txn(t, s, []store.Compare{store.SameLife("/a/", created.Revision)}, store.Put("/c/", nil)).Succeeded {
		t.Error("a key that was put again is another one")
	}
	txn(t, s, nil, store.Delete("/a/"))
	txn(t, s, nil, store.Put("/a/", []byte("4")))
	if txn(t, s, []store.Compare{store.SameLife("/a/", created.Revision)}, store.Put("/d/", nil)).Succeeded {
		t.Error("a key that was deleted and made again is the same one")
	}
}

func testDelete(t *testing.T, s store.Store) {
	txn(t, s, nil, store.Put("/a/1/", nil), store.Put("/a/2/", nil), store.Put("/b/", nil))
	if !txn(t, s, nil, store.Delete("/c/")).Succeeded {
		t.Error("a delete of a key that is not there fails")
	}
	txn(t, s, nil, store.DeletePrefix("/a/"), store.Put("/d/", nil))
	if diff := cmp.Diff([]string{"/b/", "/d/"}, keys(t, s, "/")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func keys(t *testing.T, s store.Store, prefix string) []string {
	t.Helper()
	result, err := s.Range(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, kv := range result.KVs {
		out = append(out, kv.Key)
	}
	return out
}

func testRange(t *testing.T, s store.Store) {
	for _, key := range []string{"/b/2/", "/b/10/", "/a/", "/c/", "/b/"} {
		txn(t, s, nil, store.Put(key, []byte(key)))
	}
	if diff := cmp.Diff([]string{"/b/", "/b/10/", "/b/2/"}, keys(t, s, "/b/")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := keys(t, s, "/x/"); got != nil {
		t.Errorf("a prefix of nothing has %v", got)
	}
}

func testTooLarge(t *testing.T, s store.Store) {
	maxBytes, maxOps := store.LimitsOf(s)
	_, err := s.Txn(t.Context(), nil, []store.Op{store.Put("/a/", make([]byte, maxBytes+1))})
	var size *store.SizeError
	if !errors.Is(err, store.ErrTooLarge) || !errors.As(err, &size) || size.Key != "/a/" {
		t.Errorf("a value over the limit: %v", err)
	}
	ops := make([]store.Op, maxOps+1)
	for i := range ops {
		ops[i] = store.Put(fmt.Sprintf("/b/%d/", i), nil)
	}
	if _, err = s.Txn(t.Context(), nil, ops); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("too many operations: %v", err)
	}
	if got := keys(t, s, "/"); got != nil {
		t.Errorf("what is too large was written: %v", got)
	}
	if !txn(t, s, nil, ops[:maxOps]...).Succeeded {
		t.Error("what is just not too large was refused")
	}
	if _, err = s.Txn(t.Context(), nil, []store.Op{
		store.Put("/a/", []byte(strings.Repeat("x", maxBytes-100))),
	}); err != nil {
		t.Errorf("a value that is just not too large: %v", err)
	}
}

func testCancelled(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Txn(ctx, nil, []store.Op{store.Put("/a/", nil)}); err == nil {
		t.Error("a transaction of an ended context has no error")
	}
	if _, err := s.Range(ctx, "/"); err == nil {
		t.Error("a range of an ended context has no error")
	}
}

// testConcurrentAdds lets several goroutines add to a number. Each addition must count once.
func testConcurrentAdds(t *testing.T, s store.Store) {
	const workers, each = 4, 10
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for done := 0; done < each; {
				kv, err := s.Get(t.Context(), "/n/")
				if err != nil {
					t.Error(err)
					return
				}
				result, err := s.Txn(t.Context(), []store.Compare{store.Unchanged(kv)},
					[]store.Op{store.Put("/n/", append(kv.Value, '.'))})
				if err != nil {
					t.Error(err)
					return
				}
				if result.Succeeded {
					done++
				}
			}
		})
	}
	all.Wait()
	if got := len(get(t, s, "/n/").Value); got != workers*each {
		t.Errorf("%d additions are %d", workers*each, got)
	}
}

func testOneKeyTwice(t *testing.T, s store.Store) {
	put := store.Put("/a/", []byte("1"))
	for _, other := range []store.Op{
		store.Put("/a/", []byte("2")), store.Delete("/a/"), store.DeletePrefix("/a/"), store.DeletePrefix("/"),
	} {
		for _, ops := range [][]store.Op{{put, other}, {other, put}} {
			if _, err := s.Txn(t.Context(), nil, ops); err == nil {
				t.Errorf("a transaction that puts a key twice, or puts and deletes it, has no error: %+v", ops)
			}
		}
	}
	if got := keys(t, s, "/"); got != nil {
		t.Errorf("a rejected transaction was written: %v", got)
	}
	txn(t, s, nil, put)
	txn(t, s, nil, store.Delete("/a/"), store.Delete("/a/"), store.DeletePrefix("/"))
	if got := keys(t, s, "/"); got != nil {
		t.Errorf("a key that is deleted twice is there: %v", got)
	}
}

func testNothingHalfDone(t *testing.T, s store.Store) {
	lease, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	_, err = s.Txn(t.Context(), nil, []store.Op{store.Put("/a/", nil), store.PutLeased("/b/", nil, lease)})
	if !errors.Is(err, store.ErrLeaseNotFound) {
		t.Errorf("a put with a lease that has ended: %v", err)
	}
	if got := keys(t, s, "/"); got != nil {
		t.Errorf("half of a transaction was written: %v", got)
	}
}
