// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestListReadsFewUnrelatedObjects checks that each page has few objects of others, which
// may be large, and that the objects of a work are not read one by one unless others have too many.
func TestListReadsFewUnrelatedObjects(t *testing.T) {
	const ours = 120
	for _, c := range []struct {
		name            string
		before, between int // objects of others
		metadata        bool
		pages, gets     int
	}{
		{"none", 0, 0, true, 1, 0},
		{"few", 3, 3, true, 1, 0},
		{"some", 25, 25, true, 5, 0},
		{"many", 250, 0, true, 0, ours},
		{"without metadata", 25, 25, false, 4, 0},
		{"many without metadata", 400, 0, false, 7, ours},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := newFakeAPI()
			tracker, work := newTracker(t, api, func(o *appliedwork.Options) {
				if c.metadata {
					o.Metadata = api.metadata()
				}
			})
			var objects []*unstructured.Unstructured
			for i := range ours {
				objects = append(objects, manifest(fmt.Sprintf("b-%03d", i), "1"))
			}
			create := func(name string) {
				t.Helper()
				if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), manifest(name, "1"),
					metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range c.before {
				create(fmt.Sprint("a-", i))
			}
			for i := range c.between {
				create(fmt.Sprintf("b-%03d-theirs", i*ours/c.between))
				create(fmt.Sprint("c-", i)) // after all of ours
			}
			applier := appliedwork.NewApplier(tracker)
			for _, want := range []string{"120 created", "120 unchanged"} {
				pages, others, gets := 0, 0, 0
				api.fail = func(method, path string) error {
					if method == "GET" && strings.Contains(path, "/configmaps/b-") {
						gets++
					}
					return nil
				}
				api.listed = func(items []any, slim bool) {
					n := 0
					for _, item := range items {
						if name := item.(map[string]any)["metadata"].(map[string]any)["name"].(string); !strings.HasPrefix(name, "b-") ||
							strings.HasSuffix(name, "theirs") {
							n++
						}
					}
					if !slim && (len(items) == 0 || items[0].(map[string]any)["kind"] == "ConfigMap") {
						pages, others = pages+1, max(others, n)
					}
				}
				changes, err := applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
				if err != nil || changes.String() != want {
					t.Errorf("%v, %v", changes, err)
				}
				if want == "120 unchanged" && (pages > c.pages || gets != c.gets) || others > 50 || c.metadata && others > 10 {
					t.Errorf("%s: %d pages with %d others at most, and %d gets; want %d pages and %d gets", want, pages, others, gets,
						c.pages, c.gets)
				}
			}
		})
	}
}

// TestManyPolicyRulesCostNoMemory checks that the memory that an unchanged apply allocates
// for an object does not grow with the number of rules.
func TestManyPolicyRulesCostNoMemory(t *testing.T) {
	const n = 300
	tracker, work := newTracker(t, newFakeAPI(), nil)
	applier := appliedwork.NewApplier(tracker)
	var objects []*unstructured.Unstructured
	with := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan}
	for i := range n {
		objects = append(objects, manifest(fmt.Sprint("goes-", i), "1"), manifest(fmt.Sprint("stays-", i), "1"))
		with.Orphans = append(with.Orphans, appliedwork.OrphanRule{Resource: "configmaps", Namespace: "shop",
			Name: fmt.Sprint("stays-", i)})
	}
	var allocated [2]uint64
	for i, policies := range []appliedwork.Policies{{}, with} {
		for range 2 { // the second apply has no changes
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if changes, err := applier.Apply(t.Context(), work, objects,
				appliedwork.ApplyOptions{Policies: policies}); err != nil {
				t.Fatal(changes, err)
			}
			runtime.ReadMemStats(&after)
			allocated[i] = after.TotalAlloc - before.TotalAlloc
		}
	}
	if allocated[1] > allocated[0]*3/2 {
		t.Errorf("%d bytes with %d rules, and %d without", allocated[1], n, allocated[0])
	}
}
