// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset_test

import (
	"encoding/json"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// offline returns the clientset of a source that was never started. Its writes stay in the outbox.
func offline(t *testing.T, options work.SourceOptions) worktyped.WorkV1Interface {
	t.Helper()
	options.SourceID = "hub"
	source, err := work.NewSource(memory.New().Transport(), options)
	if err != nil {
		t.Fatal(err)
	}
	return source.Clientset().WorkV1()
}

// newWork returns a work with one ConfigMap that contains value.
func newWork(name, value string) *workv1.ManifestWork {
	raw := append(make([]byte, 0, 128+len(name)+len(value)),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":`...)
	raw = append(strconv.AppendQuote(raw, name), `,"namespace":"default"},"data":{"value":`...)
	raw = append(strconv.AppendQuote(raw, value), "}}"...)
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}},
		}},
	}
}

// valueOf returns the value in the ConfigMap of a work.
func valueOf(t *testing.T, obj *workv1.ManifestWork) string {
	t.Helper()
	var cm struct{ Data map[string]string }
	if err := json.Unmarshal(obj.Spec.Workload.Manifests[0].Raw, &cm); err != nil {
		t.Fatal(err)
	}
	return cm.Data["value"]
}
