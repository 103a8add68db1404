// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/rsync/revisions"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestHold checks that holds survive restarts, in the form of version 0.1, and end with Release.
func TestHold(t *testing.T) {
	f := newFixture(t)
	f.options.Prefix = "/hub/"
	f.open()
	const stored = `{"revision":2,"rejected":"ab","source":{"document":{"kind":"Application"}}}`
	put := func(key, value string) {
		t.Helper()
		if _, err := f.store.Txn(t.Context(), nil, []store.Op{store.Put(key, []byte(value))}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want map[string]revisions.Hold) {
		t.Helper()
		holds, err := f.Holds(t.Context())
		if diff := cmp.Diff(want, holds); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put("/hub/hold/shop/", stored)
	shop := revisions.Hold{Revision: 2, Rejected: "ab", Source: json.RawMessage(`{"document":{"kind":"Application"}}`)}
	has(map[string]revisions.Hold{"shop": shop})
	other := revisions.Hold{Revision: 1, Rejected: "cd", Source: json.RawMessage(`"red"`)}
	must(f.Hold(t.Context(), "shop", other))
	must(f.Hold(t.Context(), "bar", shop))
	f.open()
	has(map[string]revisions.Hold{"shop": other, "bar": shop})
	must(f.Release(t.Context()))
	must(f.Release(t.Context(), "shop", "bar", "none"))
	has(map[string]revisions.Hold{})
	if err := f.Hold(t.Context(), "shop", revisions.Hold{Source: json.RawMessage("{")}); err == nil {
		t.Error("a source that is not JSON was stored")
	}
	put("/hub/hold/shop/", "{")
	if _, err := f.Holds(t.Context()); err == nil || !strings.Contains(err.Error(), "/hub/hold/shop/ is damaged") {
		t.Errorf("%v", err)
	}
}
