// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"
)

const customizedPools = `apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: pools}
spec:
  targets: [{apiVersion: example.com/v1, kind: Pool}]
  health: object.?status.size.orValue(0) >= object.spec.size && object.status.observedGeneration == object.metadata.generation
`

const customizedPresses = `apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: presses}
spec:
  target: {apiVersion: example.com/v1, kind: Press}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(press)
          return press.status.size >= press.spec.size
        end
`

// report makes the agent of a cluster report the size and the observed generation of objects. Each
// object has generation 1.
func (s *site) report(cluster string, sizes map[string]int, observed int) {
	s.clusters[cluster].Report(func(object string, m *workv1.ManifestCondition) {
		size, ok := sizes[object]
		if !ok {
			return
		}
		m.StatusFeedbacks.Values = []workv1.FeedbackValue{
			{
				Name: "status",
				Value: workv1.FieldValue{
					Type:    workv1.JsonRaw,
					JsonRaw: new(fmt.Sprintf(`{"size":%d,"observedGeneration":%d}`, size, observed)),
				},
			},
			{Name: "Generation", Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(int64(1))}},
		}
	})
}

// TestCustomizations checks that a part waits for the custom resources of another part until the
// customizations of the hub report them as healthy.
func TestCustomizations(t *testing.T) {
	const pool, press = "Pool x/p", "Press x/q"
	s := newSite(t, "c1")
	folder := t.TempDir()
	for name, content := range map[string]string{"pools.yaml": customizedPools, "presses.yaml": customizedPresses} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.options.Customizations = []string{folder}
	s.report("c1", map[string]int{pool: 1, press: 1}, 1)
	s.start()
	s.logs(`"Loaded customizations" count=2 kinds="example.com/v1 Pool, example.com/v1 Press"`)
	object := func(kind, name string) string {
		return "    - template: |\n        {apiVersion: example.com/v1, kind: " + kind + ", metadata: {name: " + name +
			", namespace: x}, spec: {size: 2}}\n"
	}
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop")+object("Pool", "p")+object("Press", "q")+
		strings.Replace(
			strings.SplitAfter(application("shop", "a=1"), "parts:\n")[1],
			"name: main",
			"name: web\n    dependsOn: [{part: main}]",
			1,
		))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	const unhealthy = " is not ready yet: its interpreter reports that it is not healthy"
	s.becomes("shop", "OutOfSync Progressing 1 waits for c1: main: example.com/"+pool+unhealthy)
	s.report("c1", map[string]int{pool: 2, press: 1}, 0)
	s.becomes("shop", "OutOfSync Progressing 1 waits for c1: main: example.com/"+pool+unhealthy)
	s.report("c1", map[string]int{pool: 2, press: 1}, 1)
	s.becomes("shop", "OutOfSync Progressing 1 waits for c1: main: example.com/"+press+unhealthy)
	for name := range s.clusters["c1"].Objects() {
		if strings.HasPrefix(name, "ConfigMap") {
			t.Errorf("%s did not wait", name)
		}
	}
	s.report("c1", map[string]int{pool: 2, press: 2}, 1)
	if got := s.status("shop"); got != "Synced Healthy 1" {
		t.Errorf("status %q", got)
	}
}

// TestKinds checks that a part waits for an Argo Rollout of another part without a customization.
func TestKinds(t *testing.T) {
	s := newSite(t, "c1")
	report := func(phase string) {
		s.clusters["c1"].Report(func(object string, m *workv1.ManifestCondition) {
			if object == "Rollout x/web" {
				m.StatusFeedbacks.Values = []workv1.FeedbackValue{
					{
						Name: "status",
						Value: workv1.FieldValue{
							Type:    workv1.JsonRaw,
							JsonRaw: new(`{"observedGeneration":"1","phase":"` + phase + `"}`),
						},
					},
					{Name: "Generation", Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(int64(1))}},
				}
			}
		})
	}
	report("Progressing")
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/shop", application("shop")+
		"    - template: |\n        {apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web, namespace: x}, "+
		"spec: {replicas: 2}}\n"+
		strings.Replace(
			strings.SplitAfter(application("shop", "a=1"), "parts:\n")[1],
			"name: main",
			"name: web\n    dependsOn: [{part: main}]",
			1,
		))
	s.must("PUT", "/api/v1/placements/p", placement("p", "shop", all))
	s.becomes(
		"shop",
		"OutOfSync Progressing 1 waits for c1: main: argoproj.io/Rollout x/web is not ready yet: its interpreter "+
			"reports that it is not healthy",
	)
	report("Healthy")
	s.becomes("shop", "Synced Healthy 1")
}

// TestBadCustomization checks that a hub does not start with an unusable customization.
func TestBadCustomization(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(customizedPools, "object.?status", "objekt.?status", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.options.Customizations = []string{file}
	if err := start(t.Context(), s.options, s.transport); err == nil ||
		!strings.Contains(err.Error(), file+":6:") {
		t.Errorf("%v, want the place of the mistake", err)
	}
	s.options.Customizations = []string{"nothere"}
	if err := start(t.Context(), s.options, s.transport); err == nil ||
		err.Error() != "--customizations nothere: no such file or directory" {
		t.Errorf("got %v", err)
	}
}
