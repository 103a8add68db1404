// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package worktest has the works of tests: each has one ConfigMap that contains a value.
package worktest

import (
	"encoding/json"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
)

// New returns a work with one ConfigMap that contains value.
func New(name, value string) *workv1.ManifestWork {
	raw := make([]byte, 0, 128+len(name)+len(value))
	raw = append(raw, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":`...)
	raw = append(strconv.AppendQuote(raw, name), `,"namespace":"default"},"data":{"value":`...)
	raw = append(strconv.AppendQuote(raw, value), "}}"...)
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}},
		}},
	}
}

// Value returns the value in the ConfigMap of a work.
func Value(t *testing.T, obj *workv1.ManifestWork) string {
	t.Helper()
	var cm struct{ Data map[string]string }
	if err := json.Unmarshal(obj.Spec.Workload.Manifests[0].Raw, &cm); err != nil {
		t.Fatal(err)
	}
	return cm.Data["value"]
}

// Applied returns the message of the condition Applied, or "" without that condition.
func Applied(obj *workv1.ManifestWork) string { return Message(obj, workv1.WorkApplied) }

// Message returns the message of a condition, or "" without that condition.
func Message(obj *workv1.ManifestWork, condition string) string {
	for _, c := range obj.Status.Conditions {
		if c.Type == condition {
			return c.Message
		}
	}
	return ""
}
