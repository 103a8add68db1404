// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

func TestPolicies(t *testing.T) {
	id := identifier("apps", "v1", "Deployment", "deployments", "ns", "web")
	rule := appliedwork.OrphanRule{Group: "apps", Resource: "deployments", Namespace: "ns", Name: "web"}
	tests := []struct {
		name     string
		policies appliedwork.Policies
		want     appliedwork.Policy
	}{
		{"zero", appliedwork.Policies{}, appliedwork.PolicyDelete},
		{"orphan", appliedwork.Policies{Default: appliedwork.PolicyOrphan}, appliedwork.PolicyOrphan},
		{"selected", appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan,
			Orphans: []appliedwork.OrphanRule{rule}}, appliedwork.PolicyOrphan},
		{"not selected", appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan}, appliedwork.PolicyDelete},
		{"by key", appliedwork.Policies{Default: appliedwork.PolicyOrphan,
			ByKey: map[appliedwork.Key]appliedwork.Policy{appliedwork.KeyOf(id): appliedwork.PolicyDelete}},
			appliedwork.PolicyDelete},
	}
	for _, test := range tests {
		if got := test.policies.For(id); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestOrphanRuleAppliesToEntryWithoutResource checks an orphaning rule, which
// names a resource, with an entry that has none.
func TestOrphanRuleAppliesToEntryWithoutResource(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{manifest("a", "1")},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	entries, err := tracker.Entries(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].Resource = ""
	if err := tracker.RecordApplied(t.Context(), work, entries...); err != nil {
		t.Fatal(err)
	}
	policies := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan,
		Orphans: []appliedwork.OrphanRule{{Resource: "configmaps", Namespace: "shop", Name: "a"}}}
	changes, err := appliedwork.NewCollector(tracker).Teardown(t.Context(), work,
		appliedwork.TeardownOptions{Policies: policies})
	if err != nil || changes.String() != "1 released" || api.count("configmaps") != 1 {
		t.Errorf("%v, %v", changes, err)
	}
}
