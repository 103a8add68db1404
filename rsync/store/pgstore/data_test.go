// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// testKeysOfAnyBytes: keys sort by their bytes and may have any, up to the limit of their length.
func testKeysOfAnyBytes(t *testing.T, server *postgres.Server) {
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	want := []string{"", "\x00", "A", "Z", "a", "a\x00", "a/", "ab", "z", "ä", "\xff", "\xff\x01", "\xff\xff"}
	for i := range want {
		put(t, s, want[(i*5)%len(want)], []byte(want[(i*5)%len(want)]))
	}
	for prefix, want := range map[string][]string{"": want, "a": want[4:8], "\xff": want[10:], "\xff\xff": want[12:]} {
		result, err := s.Range(t.Context(), prefix)
		var got []string
		for _, kv := range result.KVs {
			got = append(got, kv.Key)
			if string(kv.Value) != kv.Key {
				t.Errorf("the value of %q is %q", kv.Key, kv.Value)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: -want +got:\n%s%v", prefix, diff, err)
		}
	}
	long := strings.Repeat("k", 2000)
	put(t, s, long, nil)
	_, err := s.Txn(t.Context(), nil, []store.Op{store.Put(long+"k", nil)})
	if !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a key of 2,001 bytes: %v", err)
	}
}

// testLeaseEndsInEachCall: a lease has expired, and no program watches. Each call is the first one
// to see the end of the lease.
func testLeaseEndsInEachCall(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	for name, call := range map[string]func(*pgstore.Store, store.KeyValue, store.Lease) (bool, error){
		"Get": func(s *pgstore.Store, _ store.KeyValue, _ store.Lease) (bool, error) {
			kv, err := s.Get(t.Context(), "/a/")
			return !kv.Exists(), err
		},
		"Range": func(s *pgstore.Store, _ store.KeyValue, _ store.Lease) (bool, error) {
			result, err := s.Range(t.Context(), "/")
			return len(result.KVs) == 0 && result.Revision == 2, err
		},
		"Absent": func(s *pgstore.Store, _ store.KeyValue, _ store.Lease) (bool, error) {
			result, err := s.Txn(t.Context(), []store.Compare{store.Absent("/a/")}, []store.Op{store.Put("/b/", nil)})
			return result.Succeeded && result.Revision == 3, err
		},
		"SameLife": func(s *pgstore.Store, kv store.KeyValue, _ store.Lease) (bool, error) {
			result, err := s.Txn(t.Context(), []store.Compare{store.SameLife("/a/", kv.CreateRevision)},
				[]store.Op{store.Put("/b/", nil)})
			return !result.Succeeded && !result.Current[0].Exists(), err
		},
		"PutLeased": func(s *pgstore.Store, _ store.KeyValue, lease store.Lease) (bool, error) {
			_, err := s.Txn(t.Context(), nil, []store.Op{store.PutLeased("/b/", nil, lease)})
			return errors.Is(err, store.ErrLeaseNotFound), nil
		},
		"KeepAlive": func(s *pgstore.Store, _ store.KeyValue, lease store.Lease) (bool, error) {
			return errors.Is(s.KeepAlive(t.Context(), lease), store.ErrLeaseNotFound), nil
		},
		"Watch": func(s *pgstore.Store, _ store.KeyValue, _ store.Lease) (bool, error) {
			message := next(t, s.Watch(t.Context(), "/", 2))
			return message.Revision == 2 && message.Events[0].Deleted, message.Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()                // each store has its own leases
			const ttl = 5 * time.Second // the machine may be busy
			s := open(t, pgstore.Options{ConnString: db, Name: name})
			lease, err := s.Grant(t.Context(), ttl)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Txn(t.Context(), nil, []store.Op{store.PutLeased("/a/", nil, lease)}); err != nil {
				t.Fatal(err)
			}
			kv := store.KeyValue{Key: "/a/", CreateRevision: 1}
			time.Sleep(ttl)
			if ok, err := call(s, kv, lease); !ok || err != nil {
				t.Errorf("the lease has not ended: %v", err)
			}
		})
	}
}

// testRenewalDoesNotWaitForTransactions: a transaction has the lock of the store. A lease is
// renewed meanwhile, and a transaction of another client returns an error within its time limit.
func testRenewalDoesNotWaitForTransactions(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	s := open(t, pgstore.Options{ConnString: db})
	limited := open(t, pgstore.Options{ConnString: db, Timeout: 5 * time.Second})
	lease, err := s.Grant(t.Context(), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `BEGIN; UPDATE spokewire.rsync_store SET name = name`); err != nil {
		t.Fatal(err)
	}
	_, err = limited.Txn(t.Context(), nil, []store.Op{store.Put("/a/", nil)})
	if err == nil || !strings.Contains(err.Error(), "did not answer in 5s") {
		t.Errorf("a transaction that waits for the lock: %v", err)
	}
	if err := s.KeepAlive(t.Context(), lease); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	put(t, s, "/a/", nil)
}

// testGroupedTransactions: transactions that wait for the same connection are committed together.
// If the server rejects one of them, the others succeed.
func testGroupedTransactions(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	s := open(t, pgstore.Options{ConnString: db})
	server.Exec(t, nameOf(t, db), `ALTER TABLE spokewire.rsync_record ADD CHECK (key <> '/bad/')`)
	var all sync.WaitGroup
	const puts = 200
	for i := range puts {
		all.Go(func() {
			key := fmt.Sprint("/", i, "/")
			if i%20 == 7 {
				key = "/bad/"
			}
			result, err := s.Txn(t.Context(), []store.Compare{store.Absent(key)}, []store.Op{store.Put(key, nil)})
			if key == "/bad/" && err == nil || key != "/bad/" && (err != nil || !result.Succeeded) {
				t.Errorf("%s: %+v, %v", key, result, err)
			}
		})
	}
	all.Wait()
	result, err := s.Range(t.Context(), "")
	if err != nil || len(result.KVs) != puts*19/20 || result.Revision != puts*19/20 {
		t.Errorf("%d keys at revision %d: %v", len(result.KVs), result.Revision, err)
	}
}

// testIsolation: at another isolation level a transaction would not see the last revision. It is
// rejected.
func testIsolation(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	put(t, open(t, pgstore.Options{ConnString: db}), "/a/", nil)
	err := server.TryExec(nameOf(t, db), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT spokewire.rsync_revoke(1, 7)`)
	if err == nil || !strings.Contains(err.Error(), "change default_transaction_isolation") {
		t.Errorf("repeatable read: %v", err)
	}
}

// testRowOfStore: transactions make no new version of the row of the store. While pg_dump runs, the
// server keeps all versions, and each transaction would read them.
func testRowOfStore(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	s := open(t, pgstore.Options{ConnString: db})
	put(t, s, "/a/", nil) // the first one writes the timeline
	check := `SELECT 1 / count(*) FROM spokewire.rsync_store WHERE ctid = (SELECT version FROM before)`
	server.Exec(t, nameOf(t, db), `CREATE TABLE before AS SELECT ctid AS version FROM spokewire.rsync_store`)
	for range 10 {
		put(t, s, "/a/", nil)
	}
	if err := server.TryExec(nameOf(t, db), check); err != nil {
		t.Errorf("the row has a new version: %v", err)
	}
}
