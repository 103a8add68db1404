// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"encoding/json"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

// verifyStore compares the records of a store with those of its process. It finds changes that were
// not marked for the store.
func (f *fleet) verifyStore(who string, store *work.MemoryStore, known func() map[string]any) {
	if store == nil {
		return
	}
	f.t.Helper()
	synctest.Wait()
	want, got := map[string]string{}, map[string]string{}
	for key, content := range known() {
		value, err := journal.Encode(content)
		if err != nil {
			f.t.Fatal(err)
		}
		want[key] = string(value)
	}
	if err := store.Load(f.t.Context(), func(key string, value []byte) error {
		got[key] = string(value)
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(f.comparable(want), f.comparable(got)); diff != "" {
		f.t.Errorf("the store of %s (-known +stored):\n%s", who, diff)
	}
}

// comparable omits fields that are created on demand: hashes, and resourceVersions that begin with
// the time.
func (f *fleet) comparable(records map[string]string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for key, value := range records {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(value), &fields); err != nil {
			f.t.Fatal(err)
		}
		if key == "meta" {
			continue
		}
		delete(fields, "statusHash")
		delete(fields, "confirmed") // set again after a list
		out[key] = fields
	}
	return out
}
