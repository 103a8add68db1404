// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestInvalidObjects checks that a document with an object that is invalid in a work is refused
// before any part of the application is written.
func TestInvalidObjects(t *testing.T) {
	parts := func(a, b string) string {
		return header + "kind: Application\nmetadata: {name: g}\nspec:\n  parts:\n" +
			"  - name: a\n    manifests:\n    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: a, " +
			"namespace: x}, data: {v: \"" + a + "\"}}\n" +
			"  - name: b\n    manifests:\n    - template: |\n        {apiVersion: v1, kind: ConfigMap, metadata: {name: " +
			"first, namespace: x}}\n        ---\n        " + b + "\n"
	}
	s := newSite(t, "c1")
	s.start()
	s.must("PUT", "/api/v1/clusters/c1", cluster("c1", ""))
	s.must("PUT", "/api/v1/applications/g",
		parts("1", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: x}, data: {v: '1'}}"))
	s.must("PUT", "/api/v1/placements/p", placement("p", "g", all))
	if got := s.status("g"); got != "Synced Healthy 1" {
		t.Fatal(got)
	}
	before := s.must("GET", "/api/v1/applications/g", "")
	for _, tt := range []struct{ reason, object, want string }{
		{"a label", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: x, labels: {x: b a d}}}",
			`for the cluster c1: ConfigMap x/b: metadata.labels: Invalid value: "b a d": a valid label must be`},
		{"a kind", "{apiVersion: v1, kind: Frob<b>, metadata: {name: b, namespace: x}}",
			`Frob<b> x/b: kind: Invalid value: "Frob<b>": may have mixed case`},
		{"a namespace", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: A/B}}",
			`ConfigMap A/B/b: metadata.namespace: Invalid value: "A/B"`},
		{"a version", "{apiVersion: a/b/c, kind: ConfigMap, metadata: {name: b, namespace: x}}",
			`apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string`},
		{"a name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b, namespace: x}}",
			`ConfigMap x/a/b: metadata.name: Invalid value: "a/b": may not contain '/'`},
		{"a name of a kind that has rules", "{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name, namespace: x}}",
			`ConfigMap x/Bad_Name: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain`},
		{"a list", "{apiVersion: v1, kind: ConfigMapList, metadata: {name: b, namespace: x}}",
			`ConfigMapList x/b: kind: Invalid value: "ConfigMapList": a List is not supported`},
		{"a label of another type", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: x, labels: {x: 7}}}",
			`ConfigMap x/b: metadata`},
		{"an object that is too deep", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: " +
			strings.Repeat("[", 9100) + strings.Repeat("]", 9100) + "}",
			"ConfigMap b: Invalid value: must not be nested deeper than"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			code, text := s.call("PUT", "/api/v1/applications/g", parts("2", tt.object))
			var got struct{ Error, Field string }
			if err := json.Unmarshal([]byte(text), &got); err != nil || code != 422 ||
				got.Field != "spec.parts[1].manifests[0].template" || !strings.Contains(got.Error, tt.want) {
				t.Errorf("%d %s, want %q", code, text, tt.want)
			}
		})
	}
	if got := s.status("g"); got != "Synced Healthy 1" || s.must("GET", "/api/v1/applications/g", "") != before {
		t.Errorf("it is %s", got)
	}
	s.objects("c1", `x/a={"v":"1"}`, `x/b={"v":"1"}`,
		`x/first={"apiVersion":"v1","kind":"ConfigMap","metadata":{`+
			`"labels":{"hub.spokewire.io/application":"g"},"name":"first","namespace":"x"}}`)
	// The labels of another cluster may make the object invalid.
	s.must("PUT", "/api/v1/applications/g",
		parts("2", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: x, labels: {x: '{{ if index "+
			".Cluster.Labels `b` }}b a d{{ end }}'}}, data: {v: '2'}}"))
	if code, text := s.call("PUT", "/api/v1/clusters/c2", cluster("c2", "a: a")); code != 201 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := s.call("PUT", "/api/v1/clusters/c3", cluster("c3", "b: a")); code != 422 ||
		!strings.Contains(text, "for the cluster c3") {
		t.Errorf("%d %s", code, text)
	}
}
