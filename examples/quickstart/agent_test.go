// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clientgotesting "k8s.io/client-go/testing"
	workv1 "open-cluster-management.io/api/work/v1"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func newAgent() (*agent, *fake.FakeDynamicClient) {
	cluster := fake.NewSimpleDynamicClient(runtime.NewScheme())
	return &agent{name: "cluster1", cluster: cluster, out: log.New(io.Discard, "", 0)}, cluster
}

// newWork returns the work of the hub.
func newWork(t *testing.T, text string) *workv1.ManifestWork {
	t.Helper()
	w := &workv1.ManifestWork{}
	if err := json.Unmarshal(fmt.Appendf(nil, greeting, text), w); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWrite checks that an agent creates, replaces and deletes an object. It repeats each step, as
// after a conflict.
func TestWrite(t *testing.T) {
	a, cluster := newAgent()
	for _, text := range []string{"1", "1", "2", "2"} {
		if err := a.write(t.Context(), newWork(t, text)); err != nil {
			t.Fatal(err)
		}
		live, err := cluster.Resource(configMaps).Namespace("default").Get(t.Context(), "greeting", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(live.Object, "data", "text"); got != text {
			t.Errorf("the text is %q, want %q", got, text)
		}
	}
	deleted := newWork(t, "2")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for range 2 {
		if err := a.write(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		_, err := cluster.Resource(configMaps).Namespace("default").Get(t.Context(), "greeting", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%v, want not found", err)
		}
	}
}

// TestFailedObject checks that a failed request is an error, so that the work is not reported as
// applied or gone.
func TestFailedObject(t *testing.T) {
	for _, verb := range []string{"create", "update", "delete"} {
		a, cluster := newAgent()
		w := newWork(t, "1")
		w.Finalizers = []string{workv1.ManifestWorkFinalizer}
		if verb != "create" {
			if err := a.write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		if verb == "delete" {
			w.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		cluster.PrependReactor(verb, "*", func(clientgotesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("out of quota")
		})
		if err := a.reconcile(t.Context(), w); err == nil || !strings.Contains(err.Error(), "out of quota") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
