// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/rsync/store"
)

// follow returns the next n events of a watch as words. The events of one message are in brackets.
func follow(t *testing.T, watch <-chan store.Watched, n int) string {
	t.Helper()
	out := ""
	timeout := time.After(patience)
	for n > 0 {
		select {
		case message, ok := <-watch:
			if !ok || message.Err != nil {
				t.Fatalf("the watch ended after %q: %v", out, message.Err)
			}
			out += "["
			for _, e := range message.Events {
				sign := "+"
				if e.Deleted {
					sign = "-"
				}
				out += sign + e.KV.Key + string(e.KV.Value)
				n--
			}
			out += "]"
		case <-timeout:
			t.Fatalf("the watch told only %q", out)
		}
	}
	return out
}

func testWatchPast(t *testing.T, s store.Store) {
	first := txn(t, s, nil, store.Put("/a/1", []byte("=1")))
	txn(t, s, nil, store.Put("/b/", nil))
	txn(t, s, nil, store.Put("/a/1", []byte("=2")))
	txn(t, s, nil, store.Delete("/a/1"))
	got := follow(t, s.Watch(t.Context(), "/a/", first.Revision), 3)
	txnless := "[+/a/1=1][+/a/1=2][-/a/1]"
	if joined(got) != joined(txnless) {
		t.Errorf("from the first: %s, want %s", got, txnless)
	}
	got = follow(t, s.Watch(t.Context(), "/a/", first.Revision+1), 2)
	if joined(got) != joined("[+/a/1=2][-/a/1]") {
		t.Errorf("from the one after it: %s", got)
	}
}

// joined removes the brackets, because one message may have several transactions.
func joined(s string) string {
	out := ""
	for _, r := range s {
		if r != '[' && r != ']' {
			out += string(r)
		}
	}
	return out
}

func testWatchNow(t *testing.T, s store.Store) {
	last := txn(t, s, nil, store.Put("/a/1", []byte("=1")))
	watch := s.Watch(t.Context(), "/a/", last.Revision+1)
	txn(t, s, nil, store.Put("/a/2", []byte("=2")))
	if got := follow(t, watch, 1); got != "[+/a/2=2]" {
		t.Errorf("got %s", got)
	}
}

func testWatchAtomic(t *testing.T, s store.Store) {
	last := txn(t, s, nil, store.Put("/a/1", nil))
	watch := s.Watch(t.Context(), "/a/", last.Revision+1)
	txn(t, s, nil, store.Put("/a/2", nil), store.Delete("/a/1"), store.Put("/b/", nil))
	got := follow(t, watch, 2)
	if got != "[+/a/2-/a/1]" && got != "[-/a/1+/a/2]" {
		t.Errorf("one transaction came as %s", got)
	}
}

func testWatchEnds(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	watch := s.Watch(ctx, "/", 0)
	cancel()
	timeout := time.After(patience)
	for {
		select {
		case _, ok := <-watch:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("the channel of a watch whose context has ended stays open")
		}
	}
}

func testLeaseEnds(t *testing.T, s store.Store) {
	lease, err := s.Grant(t.Context(), 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	last := txn(t, s, nil, store.PutLeased("/a/", []byte("=1"), lease), store.PutLeased("/b/", nil, lease),
		store.Put("/c/", nil))
	if kv := get(t, s, "/a/"); kv.Lease != lease {
		t.Errorf("the lease of a key is %d, want %d", kv.Lease, lease)
	}
	got := follow(t, s.Watch(t.Context(), "/", last.Revision+1), 2)
	if joined(got) != "-/a/-/b/" && joined(got) != "-/b/-/a/" {
		t.Errorf("at the end of the lease: %s", got)
	}
	if diff := cmp.Diff([]string{"/c/"}, keys(t, s, "/")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := s.KeepAlive(t.Context(), lease); !errors.Is(err, store.ErrLeaseNotFound) {
		t.Errorf("a lease that has ended is renewed: %v", err)
	}
}

func testLeaseIsRenewed(t *testing.T, s store.Store) {
	lease, err := s.Grant(t.Context(), 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	txn(t, s, nil, store.PutLeased("/a/", nil, lease))
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if err := s.KeepAlive(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if !get(t, s, "/a/").Exists() {
		t.Error("the key of a lease that is renewed is gone")
	}
}

func testLeaseIsRevoked(t *testing.T, s store.Store) {
	lease, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	txn(t, s, nil, store.PutLeased("/a/", nil, lease))
	for i := range 2 {
		if err := s.Revoke(t.Context(), lease); err != nil {
			t.Fatal(fmt.Errorf("call %d: %w", i, err))
		}
	}
	if get(t, s, "/a/").Exists() {
		t.Error("the key of a lease that was ended is there")
	}
}
