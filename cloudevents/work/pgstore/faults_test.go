// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestSlowNetwork runs the suite with 500 ms between client and server, in each direction 250 ms.
func TestSlowNetwork(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	proxy := tcpproxy.Start(t, server.Addr())
	proxy.Delay(250 * time.Millisecond)
	options := pgstore.Options{ConnString: strings.Replace(db, server.Addr(), proxy.Addr(), 1)}
	open(t, options) // creates the tables; otherwise all checks wait for each other to do it
	storetest.RunSlow(t, places(options))
}

// TestServerIsKilled: a store and its follower continue after crashes and restarts of the server.
// No write that returned nil is lost, and the follower receives each batch once and in order.
func TestServerIsKilled(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	options := pgstore.Options{ConnString: server.Database(t), RetryTimeout: time.Minute}
	s := open(t, options)
	followers := map[string]*followed{"own": follow(t, s), "other": follow(t, open(t, options))}
	for _, f := range followers {
		f.next(t)
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	applied := 0
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			value := fmt.Sprint(applied + 1)
			if err := s.Apply(t.Context(), []work.Change{set("counter", value), set("key"+value, value)}); err != nil {
				t.Errorf("Apply %s: %v", value, err)
				return
			}
			applied++
		}
	})
	for _, end := range []func(){server.Kill, server.Stop, server.Kill} {
		time.Sleep(300 * time.Millisecond)
		end()
		server.Restart()
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	group.Wait()
	for name, f := range followers {
		for i := 1; i <= applied; i++ {
			if batch := f.next(t); len(batch) != 2 || string(batch[0].Value) != fmt.Sprint(i) {
				t.Fatalf("the %s follower received %v, want batch %d", name, batch, i)
			}
		}
	}
	all := content(t, s)
	if len(all) != applied+1 || all["counter"] != fmt.Sprint(applied) || applied < 3 {
		t.Errorf("%d records, counter %s, want %d batches", len(all), all["counter"], applied)
	}
}

// TestLostAnswers: a write succeeds although the connection breaks before its answer arrives. The
// batch is not applied twice, and a condition that the batch itself changes does not fail.
func TestLostAnswers(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	proxy := tcpproxy.Start(t, server.Addr())
	through := strings.Replace(db, server.Addr(), proxy.Addr(), 1)
	s := open(t, pgstore.Options{ConnString: through, RetryTimeout: time.Minute})
	followers := map[string]*followed{"own": follow(t, s), "other": follow(t, open(t, pgstore.Options{ConnString: db}))}
	for _, f := range followers {
		f.next(t)
	}
	apply(t, s, set("counter", "0"))
	for _, f := range followers {
		f.next(t)
	}
	proxy.Delay(20 * time.Millisecond)
	lost, result := 0, regexp.MustCompile(`\d+/[0-9a-f-]{36}/\d+C`) // of a batch, before the next message
	proxy.Tap(func(data []byte) {
		if result.Match(data) {
			lost++
			go proxy.Cut() // before the delayed delivery
		}
	})
	const steps = 20
	for i := range steps {
		err := s.ApplyIf(t.Context(), set("counter", fmt.Sprint(i)), []work.Change{set("counter", fmt.Sprint(i+1))})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	for name, f := range followers {
		for i := range steps {
			if batch := f.next(t); len(batch) != 1 || string(batch[0].Value) != fmt.Sprint(i+1) {
				t.Fatalf("step %d: the %s follower received %v", i, name, batch)
			}
		}
	}
	proxy.Tap(func([]byte) {})
	if lost != steps {
		t.Errorf("%d answers were lost, want %d", lost, steps)
	}
}

// TestFullDisk: writes to a full disk return an error that names it, and succeed when there is
// space again. Reads continue.
func TestFullDisk(t *testing.T) {
	folder := smallDisk(t, "160m")
	server := postgres.Start(t, postgres.Options{Folder: folder, Settings: []string{
		"max_wal_size = 32MB", "min_wal_size = 32MB", "wal_keep_size = 0"}})
	s := open(t, pgstore.Options{ConnString: server.Database(t)})
	apply(t, s, set("first", "1"))
	ballast := folder + "/ballast"
	if out, err := exec.Command("sh", "-c", "cat /dev/zero > "+ballast+" 2>/dev/null; true").CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	large := strings.Repeat("x", 1<<20)
	acknowledged := map[string]string{"first": "1"}
	var err error
	for i := 0; i < 200 && err == nil; i++ { // until the log of the server does not fit any more
		key := fmt.Sprint("large", i)
		if err = s.Apply(t.Context(), []work.Change{set(key, large)}); err == nil {
			acknowledged[key] = large
		}
	}
	if err == nil {
		t.Fatal("200 MiB were written to a full disk")
	}
	t.Logf("the error: %v", err)
	if !strings.Contains(err.Error(), "the server's disk is full") && !strings.Contains(err.Error(), "the server is") {
		t.Errorf("the error does not name the disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := server.TryExec("postgres", "SELECT 1"); err != nil { // a full log ends the server
		server.Restart()
	}
	eventually(t, func() error { return s.Apply(t.Context(), []work.Change{set("last", "1")}) })
	all := content(t, s)
	for key, value := range acknowledged {
		if all[key] != value {
			t.Errorf("the record %s is lost", key)
		}
	}
}

// smallDisk mounts a small file system in memory, until the end of the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "disk-") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(folder) })
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size+",mode=0777", "tmpfs", folder)
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("a small disk needs the right to mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", folder).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return folder
}

// TestNoFreeConnections: a server without free connections is named by the error of a write. The
// write succeeds when a connection is free.
func TestNoFreeConnections(t *testing.T) {
	server := postgres.Start(t, postgres.Options{Settings: []string{"max_connections = 8",
		"superuser_reserved_connections = 3"}})
	server.Exec(t, "postgres", roles)
	hub := migrated(t, server)
	s := open(t, pgstore.Options{ConnString: hub, RetryTimeout: 200 * time.Millisecond})
	// All connections of the store are closed, and others take their places.
	server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub'")
	blockers := make([]func(), 0, 5)
	for range 5 {
		blockers = append(blockers, server.Hold(t, hub))
	}
	err := s.Apply(t.Context(), []work.Change{set("a", "1")})
	if err == nil || !strings.Contains(err.Error(), "the server has no free connections") {
		t.Errorf("Apply: %v", err)
	}
	for _, release := range blockers {
		release()
	}
	eventually(t, func() error { return s.Apply(t.Context(), []work.Change{set("a", "1")}) })
}

// TestReadOnlyMode: a server that is switched to read-only is named by the error of a write, and
// the store continues when it accepts writes again.
func TestReadOnlyMode(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s := open(t, pgstore.Options{ConnString: server.Database(t), RetryTimeout: -1})
	f := follow(t, s)
	f.next(t)
	apply(t, s, set("a", "1"))
	f.next(t)
	server.Exec(t, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	eventually(t, func() error {
		err := s.Apply(t.Context(), []work.Change{set("a", "2")})
		if err == nil || !strings.Contains(err.Error(), "the server is read-only") {
			return fmt.Errorf("Apply: %w", err)
		}
		return nil
	})
	if err := s.Healthy(t.Context()); !errors.Is(err, pgstore.ErrReadOnly) {
		t.Errorf("Healthy: %v", err)
	}
	if got := content(t, s)["a"]; got == "" {
		t.Error("Load fails on a read-only server")
	}
	server.Exec(t, "postgres", "ALTER SYSTEM RESET default_transaction_read_only")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	eventually(t, func() error { return s.Apply(t.Context(), []work.Change{set("a", "3")}) })
	for string(f.next(t)[0].Value) != "3" { // "2" may have been written before the reload
	}
}
