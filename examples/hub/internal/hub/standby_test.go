// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/rsync/store"
)

// TestStandbyRenders checks that a hub that was a standby renders nothing at its start, because the
// standby has rendered the documents, and a change of the leader.
func TestStandbyRenders(t *testing.T) {
	f := fixtureOf(t)
	var checks atomic.Int32
	f.check = func(string) { checks.Add(1) }
	f.start()
	for _, text := range []string{
		parts("a", "1", 1), parts("b", "1", 1), parts("c", "1", 1), "kind: Cluster\nmetadata: {name: c1}\n",
		"kind: Placement\nmetadata: {name: p}\nspec: {applications: [a, b, c], clusters: {selector: {}}}\n",
	} {
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := f.Settled(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.stop()
	rendered := func(want int32) {
		t.Helper()
		for end := time.Now().Add(patience); checks.Load() < want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := checks.Load(); got != want {
			t.Fatalf("rendered %d applications, want %d", got, want)
		}
	}
	f.standby = func() {
		checks.Store(0)
		f.run(f.Standby)
		rendered(3)
		d, err := document.DecodeOne([]byte("apiVersion: hub.spokewire.io/v1alpha1\n" + parts("a", "2", 1)))
		if err == nil {
			_, err = f.store.Txn(t.Context(), nil, []store.Op{store.Put("/hub/document/Application/a/", d.JSON)})
		}
		if err != nil {
			t.Fatal(err)
		}
		rendered(4)
	}
	f.start()
	if err := f.Settled(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := f.State(t.Context()).Applications[0]; got.Revision != "2" {
		t.Errorf("%+v", got)
	}
	rendered(4)
}
