// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// cmpEmpty treats nil and empty lists as equal.
var cmpEmpty = cmpopts.EquateEmpty()

// TestMergePatchOfStatus: merge patches of the status follow RFC 7396, on the short path for
// replaced lists and on the general path.
func TestMergePatchOfStatus(t *testing.T) {
	tests := []struct {
		name, patch, want, reason string
	}{
		{"replace conditions",
			`{"status":{"conditions":[{"type":"B","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"conditions":[{"type":"B","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"a list is replaced as a whole, what is not named stays"},
		{"replace manifests",
			`{"status":{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"y"}}]}}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"y"}}]}}`,
			"also deeper down"},
		{"empty list", `{"status":{"conditions":[]}}`,
			`{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"an empty list is a value"},
		{"delete a member", `{"status":{"conditions":null}}`,
			`{"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`, "null deletes"},
		{"delete the status", `{"status":null}`, `{"resourceStatus":{}}`, "null deletes"},
		{"null as text", `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"null","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"conditions":[{"type":"A","status":"True","reason":"R","message":"null","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}`,
			"a string that contains null deletes nothing"},
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
				a.patch("app", []byte(
					`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"resourceStatus":{"manifests":[{"conditions":[],"resourceMeta":{"ordinal":0,"name":"x"}}]}}}`), "status")
				got, err := a.works().Patch(s.t.Context(), "app", types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{},
					"status")
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

// nested returns a JSON object with depth levels around a value.
func nested(depth int, value string) string {
	return strings.Repeat(`{"a":`, depth) + value + strings.Repeat("}", depth)
}

// repeated returns a JSON patch with n operations.
func repeated(operation string, n int) string {
	return strings.TrimSuffix(strings.Repeat(operation+",", n), ",")
}

// TestHostilePatchIsBounded: a small patch needs little memory and time, and never ends the
// process.
func TestHostilePatchIsBounded(t *testing.T) {
	doubling := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"op":"copy","from":"/spec","path":"/spec/c%d"}`, i)
		}
		return b.String()[1:]
	}
	longText := `"` + strings.Repeat("x", 200<<10) + `"`
	longList := "[" + repeated("1", 200_000) + "]"
	tests := []struct {
		name  string
		pt    types.PatchType
		patch string
		code  int32
	}{
		{"copies that double the object", types.JSONPatchType, "[" + doubling(18) + "]", http.StatusUnprocessableEntity},
		{"a long text copied often", types.JSONPatchType,
			`[{"op":"add","path":"/x","value":` + longText + `},` + repeated(`{"op":"copy","from":"/x","path":"/spec/x"}`, 500) +
				"]", http.StatusUnprocessableEntity},
		{"elements added at the front of a long list", types.JSONPatchType,
			`[{"op":"add","path":"/x","value":` + longList + `},` + repeated(`{"op":"add","path":"/x/0","value":1}`, 5000) + "]",
			http.StatusRequestEntityTooLarge},
		{"elements moved in a long list", types.JSONPatchType,
			`[{"op":"add","path":"/x","value":` + longList + `},` + repeated(`{"op":"move","from":"/x/0","path":"/x/-"}`, 5000) +
				"]", http.StatusRequestEntityTooLarge},
		{"a deep path", types.JSONPatchType,
			`[{"op":"add","path":"/x","value":` + nested(9000, longText) + `},{"op":"add","path":"/x` +
				strings.Repeat("/a", 9000) + `","value":1}]`, http.StatusRequestEntityTooLarge},
		{"huge index", types.JSONPatchType, `[{"op":"add","path":"/spec/workload/manifests/9223372036854775807","value":{}}]`,
			http.StatusUnprocessableEntity},
		{"index beyond 64 bits", types.JSONPatchType,
			`[{"op":"add","path":"/spec/workload/manifests/99999999999999999999","value":{}}]`, http.StatusUnprocessableEntity},
		{"index after the end", types.JSONPatchType,
			`[{"op":"replace","path":"/spec/workload/manifests/1000000000","value":{}}]`, http.StatusUnprocessableEntity},
		{"end of a list where an element must exist", types.JSONPatchType,
			`[{"op":"remove","path":"/spec/workload/manifests/-"}]`, http.StatusUnprocessableEntity},
		{"the object replaced by no value", types.JSONPatchType, `[{"op":"replace","path":""}]`,
			http.StatusUnprocessableEntity},
		{"null in a tested list", types.JSONPatchType,
			`[{"op":"add","path":"/x","value":[null]},{"op":"test","path":"/x","value":[1]}]`, http.StatusUnprocessableEntity},
		{"a deep merge patch", types.MergePatchType, `{"spec":` + nested(9000, longText) + `}`,
			http.StatusRequestEntityTooLarge},
		{"a deep list in a merge patch", types.MergePatchType,
			`{"spec":{"x":` + strings.Repeat("[", 9000) + longText + strings.Repeat("]", 9000) + `}}`,
			http.StatusRequestEntityTooLarge},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				h.create("cluster1", newWork("app", "1"))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := processorTime()
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("the patch panicked: %v", p)
						}
					}()
					_, err = h.works("cluster1").Patch(s.t.Context(), "app", tc.pt, []byte(tc.patch), metav1.PatchOptions{})
					return err
				}()
				took := processorTime() - began
				runtime.ReadMemStats(&after)
				allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
				t.Logf("patch of %d kB: %d MiB allocated, %v of processor time: %.200v", len(tc.patch)>>10, allocated, took, err)
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code != tc.code {
					t.Errorf("got %.300v, want code %d", err, tc.code)
				}
				if allocated > 200 || took > 5*time.Second {
					t.Error("the patch cost too much")
				}
			})
		})
	}
}

// TestJSONPatchKeepsManifests: a JSON patch encodes the whole object again. This must not count as
// a change of manifests that are written in another notation than that of Go.
func TestJSONPatchKeepsManifests(t *testing.T) {
	tests := []struct{ name, raw, reason string }{
		{"HTML", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"run":"a && b > c"}}`,
			"Go escapes it"},
		{"spaces", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}`, "Go leaves them out"},
		{"large integer", `{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"n":9007199254740993, "m":1}`,
			"a float cannot represent it"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				s.settle()
				w := newWork("app", "1")
				w.Labels = map[string]string{"a": "b"}
				w.Spec.Workload.Manifests[0].Raw = []byte(tc.raw)
				h.create("cluster1", w)
				s.settle()
				patch := []byte(`[{"op":"add","path":"/metadata/finalizers","value":["example.com/x"]}]`)
				if _, err := a.works().Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Errorf("a finalizer on the agent (%s): %v", tc.reason, err)
				}
				patch = []byte(`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`)
				out, err := h.works("cluster1").Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := string(out.Spec.Workload.Manifests[0].Raw); out.Generation != 1 || got != tc.raw {
					t.Errorf("a label on the source (%s): generation %d, manifest %s", tc.reason, out.Generation, got)
				}
				patch = []byte(`[{"op":"replace","path":"/spec/workload/manifests/0/kind","value":"Other"}]`)
				if out, err = h.works("cluster1").Patch(t.Context(), "app", types.JSONPatchType, patch,
					metav1.PatchOptions{}); err != nil || out.Generation != 2 {
					t.Errorf("a change of the manifest: %v, generation %d", err, out.Generation)
				}
			})
		})
	}
}
