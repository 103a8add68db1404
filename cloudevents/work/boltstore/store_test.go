// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/cloudevents/work/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "works.db")
		return func(t *testing.T) (work.Store, func()) {
			s := open(t, path)
			return s, func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		}
	})
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("not a database, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no path":      "",
		"no folder":    filepath.Join(dir, "none", "works.db"),
		"a folder":     dir,
		"another file": garbage,
	} {
		if s, err := boltstore.Open(path, boltstore.Options{}); err == nil {
			t.Errorf("%s: no error", name)
			_ = s.Close()
		}
	}
	path := filepath.Join(dir, "works.db")
	open(t, path)
	if _, err := boltstore.Open(path, boltstore.Options{LockTimeout: 50 * time.Millisecond}); !errors.Is(err,
		boltstore.ErrLocked) {
		t.Errorf("a second Open: %v, want ErrLocked", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has mode %v, which others can read", mode)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "works.db"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), []work.Change{{Key: "a", Value: []byte("1")}}); !errors.Is(err, boltstore.ErrClosed) {
		t.Errorf("Apply: %v", err)
	}
	if err := s.Load(t.Context(), func(string, []byte) error { return nil }); !errors.Is(err, boltstore.ErrClosed) {
		t.Errorf("Load: %v", err)
	}
}

// TestSynced: each batch is written and synced separately. A test that kills the process cannot
// check this, because the system keeps written data: only a power loss would show it.
func TestSynced(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "works.db"))
	db := boltstore.DB(s)
	if db.NoSync || db.NoGrowSync || db.IsReadOnly() {
		t.Errorf("NoSync %t, NoGrowSync %t: the disk may not have what was applied", db.NoSync, db.NoGrowSync)
	}
	for i := range 3 {
		before := db.Stats()
		if err := s.Apply(t.Context(), []work.Change{{Key: "a", Value: []byte{byte(i)}}}); err != nil {
			t.Fatal(err)
		}
		after := db.Stats()
		if writes := after.Sub(&before); writes.TxStats.GetWrite() < 2 { // data pages, then the meta page that commits them
			t.Errorf("Apply has returned after %d writes", writes.TxStats.GetWrite())
		}
	}
}
