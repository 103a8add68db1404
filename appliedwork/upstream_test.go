// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestUpstreamObjectsRoundTrip checks that objects in the form of the work-api CRD keep each
// field, and that no other field appears.
func TestUpstreamObjectsRoundTrip(t *testing.T) {
	content, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Objects []json.RawMessage }
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Objects) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, raw := range vectors.Objects {
		var typed v1alpha1.AppliedWork
		if err := json.Unmarshal(raw, &typed); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(&typed)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		_ = json.Unmarshal(raw, &want)
		_ = json.Unmarshal(again, &got)
		if status, ok := got["status"].(map[string]any); ok && len(status) == 0 {
			delete(got, "status") // Go writes an empty struct; the API server drops it
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", typed.Name, d)
		}
		plan := appliedwork.Diff(typed.Status.AppliedResources, nil)
		if len(plan.Stale) != len(typed.Status.AppliedResources) {
			t.Errorf("%s: %v", typed.Name, plan)
		}
	}
}
