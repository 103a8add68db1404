// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/backup"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// stores are in memory. works fails after some calls of Apply, and changes is called in Load.
type stores struct {
	*memstore.Store
	works  *work.MemoryStore
	during func()
	left   int
}

func newStores() *stores {
	return &stores{Store: memstore.New(memstore.Options{}), works: work.NewMemoryStore(), left: -1}
}

func (s *stores) both() backup.Stores { return backup.Stores{State: s, Works: s} }

func unchanged(_ string, value []byte) ([]byte, error) { return value, nil }

var errKilled = errors.New("killed")

func (s *stores) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if s.left == 0 {
		return store.TxnResult{}, errKilled
	}
	s.left--
	return s.Store.Txn(ctx, compares, ops)
}

func (s *stores) Load(ctx context.Context, f func(string, []byte) error) error {
	if s.during != nil {
		s.during()
	}
	return s.works.Load(ctx, f)
}

func (s *stores) Apply(ctx context.Context, changes []work.Change) error {
	if s.left == 0 {
		return errKilled
	}
	s.left--
	return s.works.Apply(ctx, changes)
}

// fill puts n keys and n works, and a key with a lease.
func (s *stores) fill(t *testing.T, n int) {
	t.Helper()
	lease, err := s.Grant(t.Context(), time.Hour)
	ops := []store.Op{store.PutLeased("/leader/", []byte("x"), lease)}
	var changes []work.Change
	for i := range n {
		ops = append(ops, store.Put(fmt.Sprintf("/k/%04d", i), bytes.Repeat([]byte{byte(i)}, i)))
		changes = append(changes, work.Change{Key: fmt.Sprintf("w/%04d", i), Value: bytes.Repeat([]byte{byte(i)}, i)})
	}
	for len(ops) > 0 && err == nil {
		part := min(len(ops), store.DefaultMaxTxnOps)
		_, err = s.Store.Txn(t.Context(), nil, ops[:part])
		ops = ops[part:]
	}
	if err := errors.Join(err, s.works.Apply(t.Context(), changes)); err != nil {
		t.Fatal(err)
	}
}

// content returns the content of both stores without keys with a lease.
func (s *stores) content(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	state, err := s.Range(t.Context(), "")
	for _, kv := range state.KVs {
		if kv.Lease == 0 {
			out["s "+kv.Key] = string(kv.Value)
		}
	}
	err = errors.Join(err, s.works.Load(t.Context(), func(key string, value []byte) error {
		out["w "+key] = string(value)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func written(t *testing.T, s *stores) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := backup.Write(t.Context(), &out, "hub", s.both()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRestoreHasTheContentOfTheBackup(t *testing.T) {
	for _, n := range []int{0, 1, 500} {
		from, to := newStores(), newStores()
		from.fill(t, n)
		file := written(t, from)
		h, err := backup.Read(bytes.NewReader(file), nil)
		if err != nil || h.Source != "hub" || h.Created.IsZero() {
			t.Errorf("%d: %+v, %v", n, h, err)
		}
		if err := backup.Restore(t.Context(), bytes.NewReader(file), to.both(), unchanged); err != nil {
			t.Fatal(err)
		}
		if got, want := to.content(t), from.content(t); !maps.Equal(got, want) || len(got) != 2*n {
			t.Errorf("%d: restored %d records, want %d", n, len(got), len(want))
		}
		if err := backup.Check(t.Context(), to); err != nil {
			t.Error(err)
		}
	}
}

// TestBackupHasOneMomentOfBothStores executes transactions between the reads of state and works.
func TestBackupHasOneMomentOfBothStores(t *testing.T) {
	s, n := newStores(), 0
	s.during = func() {
		if n++; n > 5 {
			return
		}
		// As a program does: first the state, then the works.
		_, err := s.Store.Txn(t.Context(), nil, []store.Op{store.Put("/k/", fmt.Append(nil, n))})
		err = errors.Join(err, s.works.Apply(t.Context(), []work.Change{{Key: "w/", Value: fmt.Append(nil, n)}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	file := written(t, s)
	s.during = nil
	to := newStores()
	if err := backup.Restore(t.Context(), bytes.NewReader(file), to.both(), unchanged); err != nil {
		t.Fatal(err)
	}
	if got := to.content(t); got["s /k/"] != "5" || got["w w/"] != "5" || n != 6 {
		t.Errorf("after %d reads: %v", n, got)
	}
	s.during = func() {
		if _, err := s.Store.Txn(t.Context(), nil, []store.Op{store.Put("/k/", nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := backup.Write(t.Context(), &bytes.Buffer{}, "hub", s.both()); err == nil ||
		!strings.Contains(err.Error(), "try again") {
		t.Errorf("with changes in each attempt: %v", err)
	}
}

func TestRestoreIntoUsedStoreIsRefused(t *testing.T) {
	from := newStores()
	from.fill(t, 3)
	file := written(t, from)
	for name, use := range map[string]func(s *stores) error{
		"a key": func(s *stores) error {
			_, err := s.Store.Txn(t.Context(), nil, []store.Op{store.Put("/x/", nil)})
			return err
		},
		"a work": func(s *stores) error {
			return s.works.Apply(t.Context(), []work.Change{{Key: "x", Value: []byte("x")}})
		},
		"a leader that starts meanwhile": func(s *stores) error {
			s.during = func() {
				lease, err := s.Grant(t.Context(), time.Hour)
				if err == nil {
					_, err = s.Store.Txn(t.Context(), nil, []store.Op{store.PutLeased("/leader/", nil, lease)})
				}
				if err != nil {
					t.Error(err)
				}
			}
			return nil
		},
	} {
		to := newStores()
		if err := use(to); err != nil {
			t.Fatal(err)
		}
		before := to.content(t)
		err := backup.Restore(t.Context(), bytes.NewReader(file), to.both(), unchanged)
		if got := to.content(t); !errors.Is(err, backup.ErrNotEmpty) || !maps.Equal(got, before) {
			t.Errorf("%s: %v, %v", name, err, got)
		}
	}
}

// TestInterruptedRestoreIsRepeated ends a restore at each write. The stores cannot be used until a
// restore of another backup ends.
func TestInterruptedRestoreIsRepeated(t *testing.T) {
	first, second := newStores(), newStores()
	first.fill(t, 300)
	second.fill(t, 2)
	files := [][]byte{written(t, first), written(t, second)}
	for writes := range 6 {
		to := newStores()
		to.left = writes
		err := backup.Restore(t.Context(), bytes.NewReader(files[0]), to.both(), unchanged)
		to.left = -1
		check := backup.Check(t.Context(), to)
		if !errors.Is(err, errKilled) || errors.Is(check, backup.ErrUnfinished) != (writes > 0) {
			t.Fatalf("after %d writes: %v, %v", writes, err, check)
		}
		if err := backup.Restore(t.Context(), bytes.NewReader(files[1]), to.both(), unchanged); err != nil {
			t.Fatal(err)
		}
		if got := to.content(t); !maps.Equal(got, second.content(t)) || backup.Check(t.Context(), to) != nil {
			t.Errorf("after %d writes and a repetition: %v", writes, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestInvalidFilesAreRefused(t *testing.T) {
	s := newStores()
	s.fill(t, 100)
	file := written(t, s)
	packed := func(text string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	read := func(file []byte) error {
		_, err := backup.Read(bytes.NewReader(file), nil)
		return err
	}
	for end := range file {
		if err := read(file[:end]); !errors.Is(err, backup.ErrTruncated) {
			t.Fatalf("%d of %d bytes: %v", end, len(file), err)
		}
	}
	header := `{"format":"spokewire-hub-backup","version":%d,"source":"hub"}` + "\n"
	changed := slices.Clone(file)
	changed[len(changed)-8]++ // of the checksum
	for _, test := range []struct {
		name string
		file []byte
		want error
	}{
		{"of another program", bytes.Repeat([]byte("x"), 100), backup.ErrForeign},
		{"another archive", packed(strings.Repeat("x", 10_000) + "\n"), backup.ErrForeign},
		{"another archive of JSON", packed("{}\n"), backup.ErrForeign},
		{"of a newer program", packed(fmt.Sprintf(header, 2)), backup.ErrNewer},
		{"a source with an escape sequence",
			packed(`{"format":"spokewire-hub-backup","version":1,"source":"\u001b[2J"}` + "\ne\x00\x00"), backup.ErrDamaged},
		{"without records", packed(fmt.Sprintf(header, 1)), backup.ErrTruncated},
		{"an unknown record", packed(fmt.Sprintf(header, 1) + "x\x00\x00"), backup.ErrDamaged},
		{"a long key", packed(fmt.Sprintf(header, 1) + "s\xff\xff\xff\xff\x7f"), backup.ErrDamaged},
		{"a key of 5,000 bytes", packed(fmt.Sprintf(header, 1) + "s\x88\x27"), backup.ErrDamaged},
		{"a value of 65 MiB", packed(fmt.Sprintf(header, 1) + "s\x00\x80\x80\xc0\x20"), backup.ErrDamaged},
		{"more after its end", packed(fmt.Sprintf(header, 1) + "e\x00\x00x"), backup.ErrDamaged},
		{"a wrong checksum", changed, backup.ErrDamaged},
	} {
		if err := read(test.file); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}
