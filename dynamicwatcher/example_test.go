// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// A policy is reconciled when the Secret that it names is created. client-go's fake client replaces
// the API server here: a program does not set Dynamic and Mapper.
func ExampleNew() {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{secrets: "SecretList"})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)

	reconciled := make(chan string)
	watcher, err := dynamicwatcher.New(&dynamicwatcher.Options{
		Reconciler: dynamicwatcher.ReconcilerFunc(func(ctx context.Context, policy dynamicwatcher.ObjectIdentifier) (
			reconcile.Result, error) {
			for _, t := range dynamicwatcher.TriggersFrom(ctx) {
				reconciled <- fmt.Sprintf("%s %s: %s %s was %s", policy.Kind, policy.Name, t.Watched.Kind, t.Watched.Name, t.Type)
			}
			return reconcile.Result{}, nil
		}),
		Dynamic: client,
		Mapper:  mapper,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- watcher.Start(ctx) }()

	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "hub-templates"}
	password := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
	if err := watcher.AddOrUpdateWatcher(policy, password); err != nil {
		fmt.Println(err)
	}
	if err := watcher.WaitForSync(ctx, policy); err != nil {
		fmt.Println(err)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "ns", "name": "password",
			"resourceVersion": "1"},
	}}
	if _, err := client.Resource(secrets).Namespace("ns").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-reconciled)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// Policy hub-templates: Secret password was Added
	// <nil>
}

// The error contains the invalid field of an identifier.
func ExampleObjectIdentifier_Validate() {
	fmt.Println(dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns"}.Validate())
	// Output:
	// invalid Name of GroupVersion=v1, Kind=Secret, Namespace=ns, Name=: required without a Selector
}

// Code for kubernetes-dependency-watches passes a configuration, a reconciler and options.
func ExampleNewForConfig() {
	api := fakeapi.New() // in place of a cluster
	defer api.Close()
	reconciled := make(chan dynamicwatcher.ObjectIdentifier)
	watcher, err := dynamicwatcher.NewForConfig(api.Config(), dynamicwatcher.ReconcilerFunc(
		func(_ context.Context, policy dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			reconciled <- policy
			return reconcile.Result{}, nil
		}), &dynamicwatcher.Options{MaxConcurrentReconciles: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- watcher.Start(ctx) }()
	<-watcher.Started()

	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	secret := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
	fmt.Println(watcher.AddOrUpdateWatcher(policy, secret), watcher.GetWatchCount())
	api.Put(fakeapi.Object(fakeapi.Secret, "ns", "password"))
	fmt.Println((<-reconciled).Name)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// <nil> 1
	// p
	// <nil>
}

// Code for kubernetes-dependency-watches may pass its own clients. client-go's fakes replace the
// API server here.
func ExampleNewWithClients() {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{secrets: "SecretList"})
	lookups := &discoveryfake.FakeDiscovery{Fake: &testing.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}},
	}}}}
	watcher := dynamicwatcher.NewWithClients(client, lookups, dynamicwatcher.ReconcilerFunc(
		func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), &dynamicwatcher.Options{EnableCache: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- watcher.Start(ctx) }()
	<-watcher.Started()

	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	err := watcher.QueryBatch(ctx, policy, func(q dynamicwatcher.Querier) error {
		secret, err := q.Get(policy, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "ns", "password")
		fmt.Println(secret == nil)
		return err
	})
	fmt.Println(err, watcher.GetWatchCount())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// true
	// <nil> 1
	// <nil>
}

// An ObjectCache stores the objects that are put into it.
func ExampleNewObjectCache() {
	cache := dynamicwatcher.NewObjectCache(&discoveryfake.FakeDiscovery{Fake: &testing.Fake{}},
		dynamicwatcher.ObjectCacheOptions{})
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	_, err := cache.Get(kind, "ns", "password")
	fmt.Println(errors.Is(err, dynamicwatcher.ErrNoCacheEntry))
	cache.CacheObject(kind, "ns", "password", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "ns", "name": "password"},
	}})
	secret, err := cache.Get(kind, "ns", "password")
	fmt.Println(secret.GetName(), err)
	cache.UncacheObject(kind, "ns", "password")
	_, err = cache.Get(kind, "ns", "password")
	fmt.Println(errors.Is(err, dynamicwatcher.ErrNoCacheEntry))
	// Output:
	// true
	// password <nil>
	// true
}

// Without triggers, for example in a controller's own reconcile, all templates are rendered.
func ExampleTriggersFrom() {
	triggers := dynamicwatcher.TriggersFrom(context.Background())
	if len(triggers) == 0 {
		fmt.Println("all templates are rendered")
	}
	for _, t := range triggers {
		fmt.Println("templates that name", t.Watched.Kind, t.Watched.Name, "are rendered")
	}
	// Output: all templates are rendered
}
