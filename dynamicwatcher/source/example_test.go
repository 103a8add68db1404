// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/dynamicwatcher/source"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// A policy depends on a secret. With a real manager, the queue of this example is not needed:
// builder.ControllerManagedBy(manager).WatchesRawSource(dependencies) starts the source.
func ExampleNew() {
	api := fakeapi.New() // in place of a cluster
	defer api.Close()
	dependencies, err := source.New(&dynamicwatcher.Options{Config: api.Config()})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(context.Background())
	if err := dependencies.Start(ctx, queue); err != nil {
		fmt.Println(err)
	}

	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	secret := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
	if err := dependencies.Watcher().AddOrUpdateWatcher(policy, secret); err != nil {
		fmt.Println(err)
	}
	api.Put(fakeapi.Object(fakeapi.Secret, "ns", "password"))
	request, _ := queue.Get()
	fmt.Println("reconcile", request)
	queue.Done(request)

	cancel()
	<-dependencies.Done()
	// Output: reconcile ns/p
}

// A controller with another type of request maps each watcher to a request.
func ExampleNewTyped() {
	api := fakeapi.New() // in place of a cluster
	defer api.Close()
	dependencies, err := source.NewTyped(&dynamicwatcher.Options{Config: api.Config()},
		func(watcher dynamicwatcher.ObjectIdentifier) string { return watcher.Kind + " " + watcher.Name })
	if err != nil {
		fmt.Println(err)
		return
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(context.Background())
	if err := dependencies.Start(ctx, queue); err != nil {
		fmt.Println(err)
	}
	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	secret := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
	if err := dependencies.Watcher().AddOrUpdateWatcher(policy, secret); err != nil {
		fmt.Println(err)
	}
	api.Put(fakeapi.Object(fakeapi.Secret, "ns", "password"))
	request, _ := queue.Get()
	fmt.Println("reconcile", request)
	queue.Done(request)
	cancel()
	<-dependencies.Done()
	// Output: reconcile Policy p
}

// Code for kubernetes-dependency-watches creates a reconciler for the watcher, and a source for the
// controller.
func ExampleNewControllerRuntimeSource() {
	api := fakeapi.New() // in place of a cluster
	defer api.Close()
	reconciler, dependencies := source.NewControllerRuntimeSource()
	watcher, err := dynamicwatcher.NewForConfig(api.Config(), reconciler, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- watcher.Start(ctx) }()
	<-watcher.Started()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	fmt.Println(dependencies.Start(ctx, queue)) // in a program: builder.WatchesRawSource(dependencies)

	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns",
		Name: "p"}
	secret := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
	fmt.Println(watcher.AddOrUpdateWatcher(policy, secret))
	api.Put(fakeapi.Object(fakeapi.Secret, "ns", "password"))
	request, _ := queue.Get()
	fmt.Println("reconcile", request)
	queue.Done(request)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// <nil>
	// <nil>
	// reconcile ns/p
	// <nil>
}
