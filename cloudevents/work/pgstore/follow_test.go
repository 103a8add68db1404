// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// query returns one number.
func query(t *testing.T, connString, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBouncer runs the suite through pgbouncer. In its session mode, notifications arrive. In its
// transaction mode they are lost, and followers ask for changes.
func TestBouncer(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			options := pgstore.Options{ConnString: server.Bouncer(t, mode)(server.Database(t))}
			storetest.Run(t, places(options))
			options.PollInterval = 3 * time.Second
			s := open(t, options)
			f := follow(t, open(t, options))
			f.next(t)
			apply(t, s, set("a", "0")) // when it arrives, the follower listens
			f.next(t)
			var times []time.Duration
			for i := range 3 { // one may be unusual on a loaded machine
				time.Sleep(500 * time.Millisecond) // the follower looks for further batches first
				began := time.Now()
				apply(t, s, set("a", fmt.Sprint(i+1)))
				f.next(t)
				times = append(times, time.Since(began))
			}
			t.Logf("batches arrived after %v", times)
			if mode == "session" && slices.Min(times) > time.Second {
				t.Error("notifications are lost")
			}
			if mode == "transaction" && slices.Max(times) < time.Second {
				t.Error("notifications arrive, so the documentation is wrong")
			}
		})
	}
}

// TestLostNotification: a follower without notifications receives a batch within PollInterval.
func TestLostNotification(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	through := server.Bouncer(t, "transaction")
	options := pgstore.Options{ConnString: through(server.Database(t))}
	s, f := open(t, options), follow(t, open(t, options))
	f.next(t)
	for i := range 5 {
		began := time.Now()
		apply(t, s, set("a", fmt.Sprint(i)))
		f.next(t)
		if took := time.Since(began); took > 3*pgstore.DefaultPollInterval {
			t.Errorf("batch %d arrived after %v", i, took)
		}
	}
}

// TestFeedIsPruned: the feed is bounded in bytes and age. A follower that is too far behind gets
// ErrBehind, and begins with the whole content when it follows again.
func TestFeedIsPruned(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	s := open(t, pgstore.Options{ConnString: db, FeedBytes: 20_000})
	received, proceed := make(chan int, 1000), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.Follow(t.Context(), "", nil, func(b work.Batch) error {
			received <- len(b.Changes)
			<-proceed
			return nil
		})
	}()
	<-received // the follower is busy from now on
	const batches = 200
	for i := range batches {
		apply(t, s, set(fmt.Sprint("key", i), strings.Repeat("x", 1000)))
	}
	if n := query(t, db, "SELECT sum(size) FROM spokewire.work_feed"); n > 20_000 || n < 10_000 {
		t.Errorf("the feed has %d bytes, want 10,000 to 20,000", n)
	}
	if n := query(t, db, `SELECT abs(sum(f.size) - min(s.feed_bytes))
		FROM spokewire.work_feed f, spokewire.work_stores s`); n != 0 {
		t.Errorf("the size of the feed is wrong by %d bytes", n)
	}
	close(proceed)
	if err := <-ended; !errors.Is(err, work.ErrBehind) {
		t.Fatalf("Follow returned %v, want ErrBehind", err)
	}
	f := follow(t, s)
	if n := len(f.next(t)); n != batches {
		t.Errorf("the first batch has %d records, want %d", n, batches)
	}
	server.Exec(t, databaseOf(db), `UPDATE spokewire.work_feed SET applied_at = now() - interval '1 hour';
		UPDATE spokewire.work_stores SET pruned_at = now() - interval '11 s'`)
	apply(t, s, set("last", "1"))
	f.next(t)
	if n := query(t, db, "SELECT count(*) FROM spokewire.work_feed"); n != 2 {
		t.Errorf("the feed has %d batches, want the last two: the others are older than FeedAge", n)
	}
	apply(t, s, set("last", "2")) // the batch before is still there, so the follower continues
	f.next(t)
}

// TestStates: the whole content comes in parts. From a position, a follower receives only the records
// that have changed since, and those that it asks for.
func TestStates(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	const records = 50
	for i := range records {
		apply(t, s, set(fmt.Sprint("key", i), strings.Repeat("x", 100_000)))
	}
	whole := state(t, s, "")
	if n := len(whole.Changes); n != records {
		t.Errorf("the whole content has %d records, want %d", n, records)
	}
	apply(t, s, set("key1", "new"), work.Change{Key: "key2"})
	apply(t, s, set("key1", "newer"))
	since := state(t, s, whole.Position, "key3", "missing", "key1")
	got := map[string]string{}
	for _, c := range since.Changes {
		got[c.Key] = fmt.Sprintf("%.5s", c.Value)
	}
	want := map[string]string{"key1": "newer", "key2": "", "key3": "xxxxx", "missing": ""}
	if diff := cmp.Diff(want, got); diff != "" || len(since.Changes) != len(want) {
		t.Errorf("%d changes (-want +got):\n%s", len(since.Changes), diff)
	}
	if again := state(t, s, since.Position); len(again.Changes) != 0 || again.Position != since.Position {
		t.Errorf("from the last position: %v", again)
	}
}

// state returns the state that Follow delivers first. Its parts have at most 2 MiB.
func state(t *testing.T, s work.SharedStore, position string, keys ...string) (all work.Batch) {
	t.Helper()
	enough := errors.New("enough")
	err := s.Follow(t.Context(), position, keys, func(b work.Batch) error {
		size := 0
		for _, c := range b.Changes {
			size += len(c.Value)
		}
		if size > 2<<20 {
			t.Errorf("a part has %d bytes", size)
		}
		all.Changes, all.Position = append(all.Changes, b.Changes...), b.Position
		if b.Position != "" {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("Follow: %v", err)
	}
	return all
}

// TestFailover: the server dies and its standby is promoted. Writes and followers continue there,
// and with synchronous replication no write that returned nil is lost.
func TestFailover(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	database := databaseOf(server.Database(t))
	standby := server.Standby(t)
	server.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	s := open(t, pgstore.Options{ConnString: both(server, standby, database), RetryTimeout: time.Minute})
	f := follow(t, s)
	f.next(t)
	for i := range 20 {
		apply(t, s, set(fmt.Sprint("key", i), "1"))
		f.next(t)
	}
	server.Kill()
	promoted := make(chan struct{})
	go func() {
		defer close(promoted)
		time.Sleep(500 * time.Millisecond)
		standby.Promote(t)
	}()
	apply(t, s, set("after", "1"))
	<-promoted
	if batch := f.next(t); batch[0].Key != "after" {
		t.Errorf("the follower received %v", batch)
	}
	if all := content(t, s); len(all) != 21 {
		t.Errorf("%d records, want 21", len(all))
	}
	if err := s.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy: %v", err)
	}
}

func both(a, b *postgres.Server, database string) string {
	return strings.Replace(a.ConnString(database), a.Addr(), a.Addr()+","+b.Addr(), 1) +
		"&target_session_attrs=read-write"
}

// TestFailoverWithLoss: without synchronous replication the promoted server lacks the last writes.
// A follower that has received them gets ErrBehind, also when there are new batches with the same
// revisions.
func TestFailoverWithLoss(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	database := databaseOf(server.Database(t))
	s0 := open(t, pgstore.Options{ConnString: server.ConnString(database)})
	apply(t, s0, set("a", "1"))
	standby := server.Standby(t)
	eventually(t, func() error {
		if query(t, standby.ConnString(database), "SELECT count(*) FROM spokewire.work_records") != 1 {
			return errors.New("the standby has no record")
		}
		return nil
	})
	standby.Exec(t, "postgres", "ALTER SYSTEM SET primary_conninfo = ''")
	standby.Exec(t, "postgres", "SELECT pg_reload_conf()")
	eventually(t, func() error {
		if query(t, standby.ConnString(database), "SELECT count(*) FROM pg_stat_wal_receiver") != 0 {
			return errors.New("the standby still receives changes")
		}
		return nil
	})
	s := open(t, pgstore.Options{ConnString: both(server, standby, database), RetryTimeout: time.Minute})
	lost, others := follow(t, s), open(t, pgstore.Options{ConnString: both(server, standby, database),
		RetryTimeout: time.Minute})
	lost.next(t)
	apply(t, s, set("a", "lost"))
	if batch := lost.next(t); string(batch[0].Value) != "lost" {
		t.Fatalf("the follower received %v", batch)
	}
	server.Kill()
	standby.Promote(t)
	apply(t, others, set("a", "other")) // it has the revision of the lost batch
	select {
	case err := <-lost.ended:
		if !errors.Is(err, work.ErrBehind) {
			t.Errorf("Follow returned %v, want ErrBehind", err)
		}
		lost.ended <- nil
	case <-time.After(patience):
		t.Error("the follower did not detect the loss")
	}
	if batch := follow(t, s).next(t); len(batch) != 1 || string(batch[0].Value) != "other" {
		t.Errorf("the content is %v", batch)
	}
}

// TestOtherHistory: if the database has another batch in place of the last one that a follower has
// received, the follower gets ErrBehind, although there are newer batches.
func TestOtherHistory(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	for _, next := range []string{"own", "other"} {
		t.Run(next, func(t *testing.T) {
			options := pgstore.Options{ConnString: server.Database(t), PollInterval: time.Hour}
			s, other := open(t, options), open(t, options)
			f := follow(t, s)
			f.next(t)
			apply(t, s, set("a", "1"))
			f.next(t)
			server.Exec(t, databaseOf(options.ConnString), `
				UPDATE spokewire.work_stores SET writer = '00000000-0000-0000-0000-000000000000';
				UPDATE spokewire.work_feed SET writer = '00000000-0000-0000-0000-000000000000' WHERE revision = 1`)
			if next == "own" {
				other = s
			}
			apply(t, other, set("a", "2"))
			select {
			case err := <-f.ended:
				if !errors.Is(err, work.ErrBehind) {
					t.Errorf("Follow returned %v, want ErrBehind", err)
				}
				f.ended <- nil
			case batch := <-f.batches:
				t.Errorf("the follower received %v, want ErrBehind", batch)
			case <-time.After(patience):
				t.Error("the follower did not detect the loss")
			}
		})
	}
}
