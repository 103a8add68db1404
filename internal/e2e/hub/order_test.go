// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ordered returns an application of two parts in a version, on the clusters with the label shop. The
// first part is ready when its Deployment is.
func ordered(version, rollout string) string {
	return strings.NewReplacer("VERSION", version, "ROLLOUT", rollout).Replace(documentHead + `kind: Application
metadata: {name: shop}
spec:ROLLOUT
  parts:
  - name: front
    dependsOn: [{part: base}]
    manifests:
    - template: |
        {apiVersion: v1, kind: ConfigMap, metadata: {name: front, namespace: shop}, data: {v: VERSION}}
        ---
        {apiVersion: v1, kind: ConfigMap, metadata: {name: front-VERSION, namespace: shop}}
  - name: base
    manifests:
    - template: |
        {apiVersion: v1, kind: ConfigMap, metadata: {name: base-VERSION, namespace: shop}}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, namespace: shop}
        spec:
          replicas: 1
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: "example.com/web:VERSION"}]}
---
` + documentHead + `kind: Placement
metadata: {name: labeled}
spec: {applications: [shop], clusters: {selector: {matchLabels: {shop: "true"}}}}
`)
}

// labeled returns clusters with the labels of each.
func labeled(labels ...string) string {
	var out []string
	for i, l := range labels {
		out = append(out, fmt.Sprintf(documentHead+"kind: Cluster\nmetadata: {name: cluster%d, labels: {%s}}\n", i+1, l))
	}
	return strings.Join(out, "---\n")
}

// has1 returns the objects of the first part in versions, and has2 those of both parts.
func has1(versions ...string) map[string]string {
	out := map[string]string{"Deployment/web": "1"}
	for _, v := range versions {
		out["ConfigMap/base-"+v] = "map[]"
	}
	return out
}

func has2(current string, others ...string) map[string]string {
	out := has1(append(others, current)...)
	for _, v := range append(others, current) {
		out["ConfigMap/front-"+v] = "map[]"
	}
	out["ConfigMap/front"] = fmt.Sprintf("map[v:%s]", current)
	return out
}

func and(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// TestOrder checks the order in which README.md promises to write and delete objects, on real
// clusters: which are selected by labels, part by part on each cluster, removed objects last and on
// all clusters, groups after an approval, and dependent parts deleted first.
func TestOrder(t *testing.T) {
	s := newSite(t, []string{"cluster1", "cluster2"})
	c1, c2 := s.spokes[0], s.spokes[1]
	s.hub.write("clusters.yaml", labeled(`shop: "true", stage: canary`, `shop: "true"`))
	s.hub.write("shop.yaml", ordered("a", ""))
	s.hub.start()
	c1.start()
	c2.start()

	// A dependent part waits on its own cluster only.
	c1.has(has1("a"))
	c2.has(has1("a"))
	c1.pretend("web")
	c1.has(has2("a"))
	c2.has(has1("a"))
	c2.pretend("web")
	c2.has(has2("a"))
	s.hub.settled("shop", "Synced", 2, "Healthy")

	// The objects that an update removes stay on all clusters until the update is everywhere.
	s.hub.write("shop.yaml", ordered("b", ""))
	both := and(has2("a"), has1("a", "b"))
	c1.has(both)
	c2.has(both)
	c1.pretend("web")
	c1.has(has2("b", "a"))
	c2.has(both)
	c2.pretend("web")
	c1.has(has2("b"))
	c2.has(has2("b"))
	s.hub.settled("shop", "Synced", 2, "Healthy")

	// Groups that labels select run one after the other, and nothing is deleted before the last.
	s.hub.write("shop.yaml", ordered("c", `
  rollout:
    groups: [{name: canary, clusters: {selector: {matchLabels: {stage: canary}}}, approveAfter: true}]`))
	c1.has(and(has2("b"), has1("b", "c")))
	c1.pretend("web")
	c1.has(has2("c", "b"))
	s.suspended()
	c2.has(has2("b"))
	s.approve()
	c2.has(and(has2("b"), has1("b", "c")))
	c2.pretend("web")
	c1.has(has2("c"))
	c2.has(has2("c"))
	s.hub.settled("shop", "Synced", 2, "Healthy")

	// A cluster that the labels select no more loses its objects, last and after the same gates.
	s.hub.write("clusters.yaml", labeled(`shop: "true", stage: canary`, `stage: none`))
	s.suspended()
	c2.has(has2("c"))
	s.approve()
	c2.clean()
	c1.has(has2("c"))
	s.hub.settled("shop", "Synced", 1, "Healthy")
	s.hub.write("clusters.yaml", labeled(`shop: "true", stage: canary`, `shop: "true"`))
	s.suspended()
	s.approve()
	c2.has(has1("c"))
	c2.pretend("web")
	c2.has(has2("c"))
	s.hub.settled("shop", "Synced", 2, "Healthy")

	// The removal begins with dependent parts, on each cluster.
	c1.finalizer("front", "example.com/wait")
	s.hub.write("shop.yaml", "")
	c2.clean()
	c1.has(and(has1("c"), map[string]string{"ConfigMap/front": "map[v:c]"}))
	c1.finalizer("front", "")
	c1.clean()
	s.hub.nothing()
}

// suspended waits until the rollout of the application waits for an approval.
func (s *site) suspended() {
	s.t.Helper()
	eventually(s.t, "the rollout needs an approval", func() error {
		_, text, err := s.hub.call(http.MethodGet, "/api/v1/applications/shop/status")
		if err == nil && (!strings.Contains(text, `"needs":{"group":"canary","gate":"After"}`) ||
			!strings.Contains(text, `"sync":"OutOfSync","health":"Suspended","reason":"the rollout waits`)) {
			err = errors.New(text)
		}
		return err
	})
}

// approve opens the gate after the first group.
func (s *site) approve() {
	s.t.Helper()
	code, text, err := s.hub.send(http.MethodPost, "/api/v1/applications/shop/approve",
		`{"group": "canary", "gate": "After"}`)
	if err != nil || code != http.StatusAccepted {
		s.t.Fatalf("%d %s, %v", code, text, err)
	}
}

// finalizer sets the only finalizer of a ConfigMap, or removes it.
func (p *spoke) finalizer(name, finalizer string) {
	p.t.Helper()
	eventually(p.t, "the finalizer of "+name, func() error {
		maps := p.core.CoreV1().ConfigMaps(namespace)
		var m *corev1.ConfigMap
		m, err := maps.Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Finalizers = nil
		if finalizer != "" {
			m.Finalizers = []string{finalizer}
		}
		_, err = maps.Update(p.t.Context(), m, metav1.UpdateOptions{})
		return err
	})
}
