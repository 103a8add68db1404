// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncstore_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/join/rsyncstore"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecords(t *testing.T) {
	data := memstore.New(memstore.Options{})
	if _, err := data.Txn(t.Context(), nil, []store.Op{store.Put("/other/a", []byte("x"))}); err != nil {
		t.Fatal(err)
	}
	r := rsyncstore.New(data, "/join/")
	changed := r.Watch(t.Context())
	if got, err := r.Get(t.Context(), "a"); err != nil || got.Version != 0 || got.Key != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	put := func(key, value string, version int64, want error) {
		t.Helper()
		record := join.Record{Key: key, Version: version}
		if value != "" {
			record.Value = []byte(value)
		}
		if err := r.Put(t.Context(), record); !errors.Is(err, want) {
			t.Errorf("put %s: %v, want %v", key, err, want)
		}
	}
	put("a", "1", 0, nil)
	<-changed
	put("a", "2", 0, join.ErrConflict)
	first, err := r.Get(t.Context(), "a")
	if err != nil || string(first.Value) != "1" {
		t.Errorf("%+v, %v", first, err)
	}
	put("a", "2", first.Version, nil)
	put("a", "", first.Version, join.ErrConflict)
	put("b", "3", 0, nil)
	all, err := r.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Key != "a" || string(all[0].Value) != "2" || all[1].Key != "b" {
		t.Errorf("%+v, %v", all, err)
	}
	put("a", "", all[0].Version, nil)
	if all, err = r.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
