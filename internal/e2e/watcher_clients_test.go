// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestWatcherWithClients runs a controller as users of kubernetes-dependency-watches write it: with
// its own clients, a source for controller-runtime, and queries.
func TestWatcherWithClients(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("clients")
	config := cluster.Config()
	config.QPS = -1
	dynamicClient := dynamic.NewForConfigOrDie(config)
	discoveryClient := discovery.NewDiscoveryClientForConfigOrDie(config)

	reconciler, channel := source.NewControllerRuntimeSource()
	var w dynamicwatcher.DynamicWatcher = dynamicwatcher.NewWithClients(
		dynamicClient, discoveryClient, reconciler, &dynamicwatcher.Options{EnableCache: true},
	)
	if err := w.StartQueryBatch(policyID(ns, "p")); !errors.Is(err, dynamicwatcher.ErrNotStarted) {
		t.Errorf("a query before Start: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- w.Start(ctx) }()
	<-w.Started()

	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan reconcile.Request, 100)
	r := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		if r.Namespace == ns && r.Name == "p" { // no config map has this name, so the request is the watcher's
			requests <- r
		}
		return reconcile.Result{}, nil
	})
	if err := ctrl.NewControllerManagedBy(manager).Named("clients").For(&corev1.ConfigMap{}).WatchesRawSource(
		channel).Complete(r); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- manager.Start(ctx) }()

	watcher := configMapID(ns, "p")
	if err := w.AddOrUpdateWatcher(watcher, secretID(ns, "s")); err != nil {
		t.Fatal(err)
	}
	if err := w.WaitForSync(t.Context(), watcher); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(){
		func() { client.setSecret(ns, "s", "1") },
		func() { client.setSecret(ns, "s", "2") },
		func() { client.deleteSecret(ns, "s") },
	} {
		change()
		<-requests
	}
	secrets := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	client.setSecret(ns, "s", "3")
	if err := w.StartQueryBatch(policyID(ns, "q")); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Get(policyID(ns, "q"), secrets, ns, "other"); err != nil || s != nil {
		t.Errorf("an absent object: %v, %v", s, err)
	}
	if err := w.EndQueryBatch(policyID(ns, "q")); err != nil {
		t.Error(err)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}

	cache := dynamicwatcher.NewObjectCache(discoveryClient, dynamicwatcher.ObjectCacheOptions{})
	if got, err := cache.GVKToGVR(secrets); err != nil || got.Resource != "secrets" || !got.Namespaced {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := cache.GVKToGVR(policyID(ns, "p").GroupVersionKind()); !errors.Is(err,
		dynamicwatcher.ErrNoVersionedResource) {
		t.Errorf("an unknown kind: %v", err)
	}
}
