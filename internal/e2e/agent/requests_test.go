// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// requests: the cost of a change of one object does not grow with the number of objects of its
// work.
func (s *scene) requests() {
	const many, events = 100, 5
	var texts []string
	for i := range many {
		texts = append(texts, s.configMap(fmt.Sprint("c", i), "1"))
	}
	s.create("w", spec(texts...))
	s.applied("w")
	before := s.process.requests()
	for i := range events {
		name := fmt.Sprint("c", i)
		s.by("somebody", s.configMap(name, ""), `{"data":{"value":"theirs"}}`)
		eventually(s.t, "the change is undone", func() error {
			if s.value(name) != "1" {
				return errors.New("it is not")
			}
			return nil
		})
	}
	// A change and its repair make two reconciles of the work.
	n := float64(s.process.requests()-before) / events
	s.t.Logf("%.1f requests for a change of one of %d objects", n, many)
	if n > 30 {
		s.t.Errorf("%.1f requests for a change of one of %d objects", n, many)
	}
	s.delete("w")
	s.gone("w")
}

// ignored: a change between the agent's read and its write is not reverted, even with force.
func (s *scene) ignored() {
	deployment := func(image string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`, s.ns, image)
	}
	work := spec(deployment("registry.example/web:1"))
	work.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: s.ns, Name: "web"},
		UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply,
			ServerSideApply: &workv1.ServerSideApplyConfig{
				Force: true, IgnoreFields: []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent,
					JSONPointers: []string{"/spec/replicas"}}},
			}},
	}}
	s.create("w", work)
	s.applied("w")
	scaled := sync.OnceFunc(func() { s.by("autoscaler", deployment(""), `{"spec":{"replicas":7}}`, "scale") })
	s.process.observe(func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/web") {
			scaled()
		}
	})
	s.update("w", manifests(deployment("registry.example/web:2")))
	s.applied("w")
	s.process.observe(nil)
	live := s.get(deployment(""))
	if image := field(live, "spec", "template", "spec", "containers", "web", "image"); image != "registry.example/web:2" {
		s.t.Errorf("the image is %v", image)
	}
	if replicas := field(live, "spec", "replicas"); replicas != int64(7) {
		s.t.Errorf("there are %v replicas", replicas)
	}
	for _, e := range live.GetManagedFields() {
		if strings.HasPrefix(e.Manager, "work-agent") && e.FieldsV1 != nil &&
			strings.Contains(e.FieldsV1.GetRawString(), "f:replicas") && e.Operation == metav1.ManagedFieldsOperationApply {
			s.t.Errorf("%s has taken the replicas back", e.Manager)
		}
	}
	s.delete("w")
	s.gone("w")
}
