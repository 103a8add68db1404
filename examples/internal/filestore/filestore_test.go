// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package filestore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, file string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store")) })
}

// TestReopen checks that a reopened store has all keys except leased ones, and that its revisions
// continue.
func TestReopen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	s := open(t, file)
	lease, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for _, ops := range [][]store.Op{
		{store.Put("/a/1", []byte("one")), store.Put("/a/2", []byte("two")), store.Put("/b/1", nil),
			store.PutLeased("/l/1", []byte("x"), lease)},
		{store.DeletePrefix("/a/"), store.Put("/c/1", []byte("old"))},
		{store.Put("/c/1", []byte("new")), store.Delete("/b/1"), store.Put("/l/2", nil)},
		{store.PutLeased("/l/2", nil, lease)},
	} {
		result, err := s.Txn(t.Context(), nil, ops)
		if err != nil {
			t.Fatal(err)
		}
		last = result.Revision
	}
	if _, err := filestore.Open(t.Context(), file); err == nil ||
		!strings.Contains(err.Error(), file+": another process has the file open") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(t.Context(), nil, []store.Op{store.Put("/x", nil)}); err == nil {
		t.Error("a transaction that does not reach the file succeeds")
	}
	if _, err := s.Txn(t.Context(), nil, nil); err == nil {
		t.Error("and the store goes on")
	}
	if err := s.Healthy(); err == nil || !strings.Contains(err.Error(), "can no longer be written") {
		t.Errorf("%v", err)
	}
	again := open(t, file)
	all, err := again.Range(t.Context(), "/")
	if err != nil || len(all.KVs) != 1 || all.KVs[0].Key != "/c/1" || string(all.KVs[0].Value) != "new" ||
		all.Revision <= last {
		t.Errorf("%+v, %v; the last revision was %d", all, err, last)
	}
}

// TestDamaged checks that a truncated or partly overwritten file results in an error and not in a
// panic.
func TestDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	s := open(t, file)
	for i := range 100 {
		key := fmt.Sprintf("/a/%d/", i)
		if _, err := s.Txn(t.Context(), nil, []store.Op{store.Put(key, bytes.Repeat([]byte("x"), 1000))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{
		"nothing":     nil,
		"cut":         whole[:10*4096],
		"text":        bytes.Repeat([]byte("hello"), 10_000),
		"overwritten": append(bytes.Clone(whole[:3*4096]), bytes.Repeat([]byte{0xa5}, len(whole)-3*4096)...),
		"zeroed":      append(bytes.Clone(whole[:3*4096]), make([]byte, len(whole)-3*4096)...),
	}
	for name, content := range damaged {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "store")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := filestore.Open(t.Context(), file); err == nil ||
				!strings.Contains(err.Error(), file+": the file is ") ||
				!strings.HasSuffix(err.Error(), "; restore it, or remove it to start with an empty store") {
				t.Errorf("%v", err)
			}
			if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, content) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}
