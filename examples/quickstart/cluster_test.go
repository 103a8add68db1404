// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clientgotesting "k8s.io/client-go/testing"
)

// TestExistingObjectsStay checks that a work changes an existing object, but deletes only the
// objects that it has created.
func TestExistingObjectsStay(t *testing.T) {
	clusters, err := openClusters(options{Clusters: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := clusters[0]
	object := func(name, value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "n"},
			"data": map[string]any{"value": value},
		}}
	}
	maps := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("n")
	if _, err := maps.Create(t.Context(), object("found", "theirs"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := newWork(file{work: "w", objects: []*unstructured.Unstructured{object("found", "ours"), object("new", "ours")}},
		c.name)
	w.UID = "1"
	for range 2 { // the second time, both exist
		if err := c.apply(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"found", "new"} {
		live, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if value, _, _ := unstructured.NestedString(live.Object, "data", "value"); value != "ours" {
			t.Errorf("%s has %q", name, value)
		}
	}
	if err := c.remove(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(t.Context(), "found", metav1.GetOptions{}); err != nil {
		t.Errorf("the existing object: %v", err)
	}
	if _, err := maps.Get(t.Context(), "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the created object: %v, want not found", err)
	}
}

// TestFailedObject checks that the hub reports why a work is not applied, and that other works are.
func TestFailedObject(t *testing.T) {
	clusters, err := openClusters(options{Clusters: 1})
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(action clientgotesting.Action) (bool, runtime.Object, error) {
		object := action.(clientgotesting.CreateAction).GetObject().(*unstructured.Unstructured)
		return object.GetName() == "bad", nil, errors.New("out of quota")
	}
	clusters[0].client.(*fake.FakeDynamicClient).PrependReactor("create", "*", refuse)
	object := func(name string) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		}}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var services sync.WaitGroup
	defer func() {
		cancel()
		services.Wait()
	}()
	h := &hub{
		clusters: clusters, files: []file{{"bad", object("bad")}, {"good", object("good")}}, timeout: time.Second,
		print: (&printer{to: io.Discard}).print, changes: make(chan change),
	}
	start := func(service func(context.Context) error) { services.Go(func() { _ = service(ctx) }) }
	if err := connect(ctx, options{Timeout: time.Minute}, h, start); err != nil {
		t.Fatal(err)
	}
	const want = `1 work left: work bad on cluster1 is not applied: ConfigMap "bad": out of quota`
	if err := h.run(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := h.cleanup(ctx); err != nil {
		t.Error(err)
	}
}
