// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChangesAreEncoded(t *testing.T) {
	changes := []work.Change{
		{Key: "removed"}, {Key: "", Value: []byte{}}, {Key: "empty", Value: []byte{}}, {Key: "zero", Value: []byte{0}},
		{Key: strings.Repeat("k", 5000), Value: bytes.Repeat([]byte("v"), 70_000)}, {Key: "last"},
	}
	data := encodeChanges(changes)
	got, err := decodeChanges(data)
	if diff := cmp.Diff(changes, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for n := range len(data) - 1 {
		if got, err := decodeChanges(data[:n]); err == nil && len(got) >= len(changes) {
			t.Fatalf("%d bytes of %d are decoded as %d changes", n, len(data), len(got))
		}
	}
}

// FuzzDecode: no bytes crash the decoders, and decoded changes are encoded to the same changes.
func FuzzDecode(f *testing.F) {
	f.Add(encodeChanges([]work.Change{{Key: "a"}, {Key: "b", Value: []byte("c")}}))
	f.Add([]byte(piecesOf("ID", []byte("content"), 3).encode()))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := decodePieces(data); err == nil {
			if again, err := decodePieces([]byte(p.encode())); err != nil || again != p {
				t.Errorf("%q is decoded as %+v, and then as %+v: %v", data, p, again, err)
			}
		}
		changes, err := decodeChanges(data)
		if err != nil {
			return
		}
		again, err := decodeChanges(encodeChanges(changes))
		if diff := cmp.Diff(changes, again); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// TestKeysAreSeparate: any two keys have separate ranges, and are read back.
func TestKeysAreSeparate(t *testing.T) {
	k := keys("/p/")
	all := []string{
		"", "a", "a/b", "a-b", "ab", "a\x00", "a\x00000000", "a\x01", "a\x01z", "a\x01o", "a\x02", "é", "\x00", "\x01",
	}
	for _, a := range all {
		for _, key := range []string{k.record(a), k.chunk(a, 0), k.chunk(a, 999)} {
			got, chunk, ok := k.recordOf([]byte(key))
			if !ok || got != a || chunk != (key != k.record(a)) {
				t.Errorf("%q is read as %q, %t, %t", key, got, chunk, ok)
			}
			if key < k.records() || key >= k.recordsEnd() || key < k.pending() || key >= k.watchEnd() {
				t.Errorf("%q is out of the range of records", key)
			}
			for _, b := range all {
				if in := key >= k.record(b) && key < k.recordEnd(b); in != (a == b) {
					t.Errorf("%q is in the range of %q: %t", key, b, in)
				}
			}
		}
	}
	for _, key := range []string{k.format(), k.staged(), k.part("ID", 1), k.stage("ID")} {
		if key >= k.pending() && key < k.watchEnd() {
			t.Errorf("%q is watched", key)
		}
	}
	if k.part("ID", 0) >= k.stageEnd("ID") || k.stage("ID") >= k.stageEnd("ID") {
		t.Error("parts are outside of the range of their batch")
	}
}

// TestDamagedRecordIsRefused: a record without a part of its chunks is an error, unless a pending
// batch sets it.
func TestDamagedRecordIsRefused(t *testing.T) {
	s := &Store{keys: "/p/", chunks: map[string]struct{}{}}
	value := bytes.Repeat([]byte("abc"), chunkBytes)
	change := work.Change{Key: "big", Value: value}
	read := func(leave int, pending ...work.Change) (string, error) {
		r := reader{store: s, damaged: map[string]error{}}
		for i, op := range s.copyOps(change)[:4] {
			if i == leave {
				continue
			}
			if err := r.add(kv(op.KeyBytes(), op.ValueBytes())); err != nil {
				return "", err
			}
		}
		records, err := r.with(pending)
		return fmt.Sprint(len(records), len(records) == 1 && bytes.Equal(records[0].Value, value)), err
	}
	if got, err := read(-1); got != "1 true" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	for chunk := 1; chunk <= 3; chunk++ {
		if got, err := read(chunk); err == nil || !strings.Contains(err.Error(), `"big": the record is damaged`) {
			t.Errorf("without chunk %d: %s, %v", chunk, got, err)
		}
		if got, err := read(chunk, change); got != "1 true" || err != nil {
			t.Errorf("without chunk %d of a pending batch: %s, %v", chunk, got, err)
		}
	}
}

// TestNestedTransactionsAreWithinLimit: for each number of operations, the lists on a path of nested
// transactions have at most limit operations together, and no operation is lost.
func TestNestedTransactionsAreWithinLimit(t *testing.T) {
	for _, limit := range []int{leastTxnOps, 9, DefaultMaxTxnOps} {
		for n := range limit/2*(limit/2) + 1 {
			ops := slices.Repeat([]clientv3.Op{clientv3.OpPut("k", "v")}, n)
			total := 0
			out := nested(ops, limit)
			for _, op := range out {
				size := 1
				if op.IsTxn() {
					_, inner, _ := op.Txn()
					size = len(inner)
					if len(out)+size > limit {
						t.Fatalf("%d operations are %d transactions of up to %d, the limit is %d", n, len(out), size, limit)
					}
				}
				total += size
			}
			if total != n || len(out) > limit {
				t.Fatalf("%d operations are %d in %d, the limit is %d", n, total, len(out), limit)
			}
		}
	}
}

func kv(key, value []byte) *mvccpb.KeyValue { return &mvccpb.KeyValue{Key: key, Value: value} }

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"invalid Options.Endpoints":         {},
		"invalid Options.Endpoints[1]":      {Endpoints: []string{"x", "http://user:secret%zz@x:1"}},
		"invalid Options.Password":          {Endpoints: []string{"x"}, Password: "secret"},
		"invalid Options.Timeout: -1ns":     {Endpoints: []string{"x"}, Timeout: -1},
		"invalid Options.CleanupInterval":   {Endpoints: []string{"x"}, CleanupInterval: 1},
		"invalid Options.MaxRequestBytes":   {Endpoints: []string{"x"}, MaxRequestBytes: 1},
		"invalid Options.MaxTxnOps: 1: mus": {Endpoints: []string{"x"}, MaxTxnOps: 1},
	} {
		_, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	o, err := Options{Endpoints: []string{"x"}, Prefix: "/a"}.withDefaults()
	if err != nil || o.Prefix != "/a/" || o.Timeout != DefaultTimeout || o.CleanupInterval != DefaultCleanupInterval {
		t.Errorf("%+v, %v", o, err)
	}
}
