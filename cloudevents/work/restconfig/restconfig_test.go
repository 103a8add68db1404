// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

func newSource(t *testing.T) *work.Source {
	t.Helper()
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, source.Start)
	return source
}

func manifestWork(name string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: name}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`),
	}}}
	return w
}

func TestClients(t *testing.T) {
	source := newSource(t)
	config := configOf(t, source)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil || len(lists) != 1 || len(lists[0].APIResources) != 2 {
		t.Fatalf("discovery returned %v: %v", lists, err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := manifestWork("a")
	if err := c.Create(ctx, w); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(w.DeepCopy())
	w.Labels = map[string]string{"x": "y"}
	if err := c.Patch(ctx, w, patch); err != nil {
		t.Fatal(err)
	}
	events, err := c.Watch(ctx, &workv1.ManifestWorkList{}, client.InNamespace("cluster1"))
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events.ResultChan(); e.Type != watch.Added {
		t.Fatal(e)
	}
	events.Stop()
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}
	obj, err := dyn.Resource(gvr).Namespace("cluster1").Apply(ctx, "b", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workv1.GroupName + "/v1", "kind": "ManifestWork", "metadata": map[string]any{"name": "b"},
		"spec": map[string]any{"workload": map[string]any{"manifests": []any{}}},
	}}, metav1.ApplyOptions{FieldManager: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if obj.GetName() != "b" || obj.GetUID() == "" {
		t.Errorf("apply returned %v", obj)
	}
	informers, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	cacheDone := make(chan error)
	cacheCtx, stopCache := context.WithCancel(ctx)
	go func() { cacheDone <- informers.Start(cacheCtx) }()
	t.Cleanup(func() {
		stopCache()
		if err := <-cacheDone; err != nil {
			t.Error(err)
		}
	})
	if !informers.WaitForCacheSync(ctx) { // until then reads return ErrCacheNotStarted
		t.Fatal("the cache did not start")
	}
	var list workv1.ManifestWorkList
	if err := informers.List(ctx, &list); err != nil || len(list.Items) != 2 {
		t.Fatal(err, len(list.Items))
	}
	if err := c.Delete(ctx, w); err != nil {
		t.Fatal(err)
	}
	w.ResourceVersion = "1"
	if err := c.Update(ctx, w); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	strategic := client.RawPatch(types.StrategicMergePatchType, []byte(`{}`))
	if err := c.Status().Patch(ctx, w, strategic); !apierrors.IsUnsupportedMediaType(err) {
		t.Fatal(err)
	}
}

// TestEnvtestExampleRuns runs the suite of the example Envtest.
func TestEnvtestExampleRuns(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: envtest needs kube-apiserver and etcd")
	}
	t.Setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "5m") // the machine may be busy
	t.Setenv("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", "5m")
	greeterOnEnvtest(t)
}
