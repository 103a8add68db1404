// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

const pageSize = 4096

// aFile returns the content of a store's file, with leaves, branches, a value of many pages, and
// free pages.
func aFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "works.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize}) // the same page size on all machines
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	for batch := range 10 {
		var changes []work.Change
		for i := range 200 {
			changes = append(changes, work.Change{Key: fmt.Sprintf("work/c1/%d-%d", batch, i),
				Value: fmt.Appendf(nil, `{"version":%d}`, i)})
		}
		changes = append(changes, work.Change{Key: "large", Value: bytes.Repeat([]byte{'x'}, 10*pageSize)})
		if err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNotAStore: a file that is not a store, or only a part of a store, is refused with the reason.
// Open does not change the file.
func TestNotAStore(t *testing.T) {
	whole := aFile(t)
	zeroed := append(slices.Clone(whole[:2*pageSize]), make([]byte, len(whole)-2*pageSize)...)
	swapped := slices.Clone(whole)
	copy(swapped[4*pageSize:5*pageSize], whole[5*pageSize:])
	for _, tc := range []struct {
		name, reason string
		content      []byte
		want         string
	}{
		{"nothing", "cut by a full disk", nil,
			"is damaged: it is empty: it was cut, as by a full disk, or never written; restore it, or remove it"},
		{"text", "some other file", []byte("hello, this is no database\n"), ""},
		{"long text", "some other file", bytes.Repeat([]byte("hello"), 10_000), "invalid database"},
		{"zeros", "a file that was made and not written", make([]byte, 4*pageSize), "invalid database"},
		{"one page", "the second meta page is gone", whole[:pageSize], ""},
		{"three pages", "cut", whole[:3*pageSize], "it was cut"},
		{"half", "cut", whole[:len(whole)/2], "it was cut"},
		{"half of a page", "cut", whole[:len(whole)/2+100], "it was cut"},
		{"only its beginning", "pages that were never written", zeroed, "says that it is page 0"},
		{"a page twice", "written to another place", swapped, "says that it is page"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "works.db")
			if err := os.WriteFile(path, tc.content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := boltstore.Open(path, boltstore.Options{})
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error with %q: %s", err, tc.want, tc.reason)
			}
			if tc.want != "" && !errors.Is(err, boltstore.ErrDamaged) {
				t.Errorf("%v is not ErrDamaged", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, tc.content) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// TestDamaged: damage at any position of a file never ends the process.
func TestDamaged(t *testing.T) {
	whole := aFile(t)
	path := filepath.Join(t.TempDir(), "works.db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 300 {
		bad := slices.Clone(whole)
		for range 1 + random.IntN(20) {
			at := random.IntN(len(bad))
			if random.IntN(2) == 0 { // the beginning of a page: its header and the positions of its keys
				at = at/pageSize*pageSize + random.IntN(64)
			}
			bad[at] ^= 1 << random.IntN(8)
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := boltstore.Open(path, boltstore.Options{})
		if err != nil {
			refused++
			continue
		}
		load := s.Load(t.Context(), func(string, []byte) error { return nil })
		apply := s.Apply(t.Context(), []work.Change{{Key: "work/c1/5-5"}, {Key: "new", Value: make([]byte, 3*pageSize)}})
		if err := errors.Join(load, apply, s.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 300 were refused", refused)
	if refused == 0 || refused == 300 {
		t.Error("the damage shows nothing")
	}
}

// TestWholeFiles: files with any history can be opened again.
func TestWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "works.db")
	random := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		s, err := boltstore.Open(path, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range random.IntN(3) {
			var changes []work.Change
			for key := range random.IntN(300) {
				c := work.Change{Key: fmt.Sprintf("%0*d", 1+random.IntN(900), key)}
				if random.IntN(3) > 0 {
					c.Value = make([]byte, random.IntN(1+random.IntN(20_000)))
				}
				changes = append(changes, c)
			}
			if err := s.Apply(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOtherDatabases: Open refuses a bbolt file of another program, but accepts an empty database.
func TestOtherDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := boltstore.Open(path, boltstore.Options{}) // an empty database: a process died while it created a store
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path += "2"
	if db, err = bbolt.Open(path, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		_, err = b.CreateBucket([]byte("inner"))
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err = boltstore.Open(path, boltstore.Options{}); err == nil ||
		!strings.Contains(err.Error(), `another program, with the bucket "key"`) {
		t.Errorf("%v, want an error with the bucket", err)
	}
	if errors.Is(err, boltstore.ErrDamaged) {
		t.Error("it is not damaged")
	}
}
