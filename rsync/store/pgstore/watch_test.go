// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

func put(t testing.TB, s store.Store, key string, value []byte) int64 {
	t.Helper()
	result, err := s.Txn(t.Context(), nil, []store.Op{store.Put(key, value)})
	if err != nil || !result.Succeeded {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Revision
}

// next returns the next message of a watch.
func next(t testing.TB, watch <-chan store.Watched) store.Watched {
	t.Helper()
	select {
	case message := <-watch:
		return message
	case <-time.After(patience):
		t.Fatalf("the watch has no message after %s", patience)
	}
	return store.Watched{}
}

// testCompaction: events beyond the limits of their bytes or age are deleted. A watch from a
// deleted revision has ErrCompacted, and a watch from the next one has all later events.
func testCompaction(t *testing.T, server *postgres.Server) {
	db := server.Database(t)
	const puts, size = 200, 1000
	for name, options := range map[string]pgstore.Options{
		"bytes": {FeedBytes: 50 * (size + 200)}, "age": {FeedAge: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			options.ConnString, options.Name = db, name
			s := open(t, options)
			var last int64
			for i := range puts {
				if i == puts-50 && options.FeedAge > 0 {
					time.Sleep(options.FeedAge)
				}
				last = put(t, s, "/a/", make([]byte, size))
			}
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			if message := next(t, s.Watch(t.Context(), "/a/", 1)); !errors.Is(message.Err, store.ErrCompacted) {
				t.Errorf("from the first revision: %+v", message)
			}
			oldest := last
			for oldest > 1 {
				message := next(t, s.Watch(t.Context(), "/a/", oldest-1))
				if message.Err != nil {
					break
				}
				oldest--
				if message.Revision != oldest {
					t.Fatalf("the first message of a watch from %d is %d", oldest, message.Revision)
				}
			}
			if kept := last - oldest + 1; kept > 55 || name == "bytes" && kept < 45 {
				t.Errorf("%d events are left, want about 50", kept)
			}
			if kv, err := s.Get(t.Context(), "/a/"); err != nil || kv.ModRevision != last || kv.CreateRevision != 1 {
				t.Errorf("compaction changed a key: %+v, %v", kv, err)
			}
		})
	}
}

// testSlowWatchReader: the reader of a watch receives nothing while the events exceed the queue of
// the watch several times. Another watch is not delayed, and the slow reader has all events in the
// end.
func testSlowWatchReader(t *testing.T, server *postgres.Server) {
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	slow, other := s.Watch(t.Context(), "/a/", 1), s.Watch(t.Context(), "/", 1)
	const puts = 40
	for i := range puts {
		revision := put(t, s, fmt.Sprint("/a/", i), make([]byte, 500_000))
		if message := next(t, other); message.Revision != revision {
			t.Fatalf("the other watch has %d instead of %d", message.Revision, revision)
		}
	}
	for i := range puts {
		message := next(t, slow)
		if len(message.Events) != 1 || message.Events[0].KV.Key != fmt.Sprint("/a/", i) ||
			len(message.Events[0].KV.Value) != 500_000 || message.Revision != int64(i+1) {
			t.Fatalf("message %d: %d events, revision %d, %v", i, len(message.Events), message.Revision, message.Err)
		}
	}
	put(t, s, "/a/last", nil)
	if message := next(t, slow); len(message.Events) != 1 || message.Events[0].KV.Key != "/a/last" {
		t.Errorf("after all of them: %+v", message)
	}
}

// testManyKeys: keys beyond the page of events. One transaction deletes all of them, and is one
// message.
func testManyKeys(t *testing.T, server *postgres.Server) {
	s := open(t, pgstore.Options{ConnString: server.Database(t), MaxTxnOps: 1000})
	const keys = 5000
	for i := 0; i < keys; i += 1000 {
		var ops []store.Op
		for n := range 1000 {
			ops = append(ops, store.Put(fmt.Sprintf("/a/%06d", i+n), []byte("value")))
		}
		if _, err := s.Txn(t.Context(), nil, append(ops, store.Delete("/b/"))[:1000]); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "/b", nil)
	result, err := s.Range(t.Context(), "/a/")
	if err != nil || len(result.KVs) != keys || result.KVs[0].Key != "/a/000000" || result.KVs[keys-1].Key != "/a/004999" {
		t.Fatalf("%d keys: %v", len(result.KVs), err)
	}
	deleted, err := s.Txn(t.Context(), nil, []store.Op{store.DeletePrefix("/a/")})
	if err != nil {
		t.Fatal(err)
	}
	watch := s.Watch(t.Context(), "/a/", 1)
	for n := 0; n < keys; {
		n += len(next(t, watch).Events)
	}
	message := next(t, watch)
	if len(message.Events) != keys || message.Revision != deleted.Revision || !message.Events[0].Deleted {
		t.Errorf("one transaction that deletes %d keys has %d events", keys, len(message.Events))
	}
	if result, err := s.Range(t.Context(), ""); err != nil || len(result.KVs) != 1 || result.Revision != 7 {
		t.Errorf("%+v, %v", result, err)
	}
}

// testLostNotifications: pgbouncer in its transaction mode delivers no notifications, and its
// connections change between statements. The store meets its contract, and a watch has events of
// another Store within a second. (Three seconds for one of five here, because other tests use the
// machine.)
func testLostNotifications(t *testing.T, server *postgres.Server) {
	through, db := server.Bouncer(t, "transaction"), server.Database(t)
	n := 0
	storetest.Run(t, func(t *testing.T) store.Store {
		n++
		return open(t, pgstore.Options{ConnString: through(db), Name: fmt.Sprint("test", n)})
	})
	one, two := open(t, pgstore.Options{ConnString: through(db)}), open(t, pgstore.Options{ConnString: db})
	watch := one.Watch(t.Context(), "/", 1)
	fastest := patience
	for i := range 5 {
		began := time.Now()
		revision := put(t, two, "/a/", nil)
		message := next(t, watch)
		if message.Revision != revision {
			t.Errorf("event %d: %+v", i, message)
		}
		fastest = min(fastest, time.Since(began))
	}
	if fastest > 3*time.Second {
		t.Errorf("the fastest event took %s", fastest)
	}
}

// testCloseEndsWatches: the watches of a closed store have ErrClosed, and so has each later call.
func testCloseEndsWatches(t *testing.T, server *postgres.Server) {
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	watch := s.Watch(t.Context(), "/", 0)
	put(t, s, "/a/", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	message := next(t, watch)
	for message.Err == nil && len(message.Events) > 0 {
		message = next(t, watch)
	}
	_, err := s.Txn(t.Context(), nil, []store.Op{store.Put("/a/", nil)})
	_, getErr := s.Get(t.Context(), "/a/")
	for what, err := range map[string]error{
		"the watch": message.Err, "Txn": err, "Get": getErr, "KeepAlive": s.KeepAlive(t.Context(), 1),
		"a later watch": next(t, s.Watch(t.Context(), "/", 0)).Err, "Healthy": s.Healthy(t.Context()),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
