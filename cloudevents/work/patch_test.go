// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// cmpEmpty takes nil and empty lists for the same.
var cmpEmpty = cmpopts.EquateEmpty()

// TestMergePatchOfStatus: patches of the status mean what RFC 7396 says, on the short way as on the long one.
func TestMergePatchOfStatus(t *testing.T) {
	tests := []struct {
		name, patch, want, reason string
	}{
		{"replace conditions", `{"status":{"conditions":[{"type":"B","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"conditions":[{"type":"B","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"a list is replaced as a whole, what is not named stays"},
		{"replace manifests", `{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"y"}}]}}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"y"}}]}}`,
			"also deeper down"},
		{"empty list", `{"status":{"conditions":[]}}`,
			`{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`, "an empty list is a value"},
		{"delete a member", `{"status":{"conditions":null}}`,
			`{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`, "null deletes"},
		{"delete the status", `{"status":null}`, `{"resourceStatus":{}}`, "null deletes"},
		{"null as text", `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"null","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"null","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"the word in a string is no deletion"},
		{"unknown member", `{"status":{"nonsense":1}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"pruned, as a structural schema does"},
		{"wrong case", `{"status":{"Conditions":[]}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"names are case-sensitive"},
		{"nothing", `{}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`, "no change"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				a.patch("app", []byte(`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}}`), "status")
				got, err := a.works().Patch(s.t.Context(), "app", types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{}, "status")
				if err != nil {
					s.t.Fatal(err)
				}
				var want workv1.ManifestWorkStatus
				if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got.Status, cmpEmpty); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
				}
			})
		})
	}
}
