// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// cluster returns client-go's fakes, extended with UIDs, which these fakes do not set.
func cluster() (dynamic.Interface, discovery.DiscoveryInterfaceWithContext) {
	kinds := map[schema.GroupVersionResource]string{configMaps: "ConfigMapList",
		v1alpha1.GroupVersionResource: "AppliedWorkList"}
	client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	made := 0
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		made++
		action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).SetUID(
			types.UID(fmt.Sprint("uid-", made)))
		return false, nil, nil // the fake's own reactor continues
	})
	verbs := metav1.Verbs{"get", "list", "create", "delete"}
	return client, &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: v1alpha1.GroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "appliedworks", Kind: v1alpha1.Kind, Verbs: verbs}}},
	}}}
}

// Desired is a function. With a manager, SetupWithManager adds a controller that calls Reconcile.
func ExampleNew() {
	client, disco := cluster()
	settings := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
		"data": map[string]any{"value": "1"},
	}}
	var hub func() (reconciler.Want, error) // stands for a hub
	r, err := reconciler.New(reconciler.Options{
		Options: appliedwork.Options{Client: client, Discovery: disco},
		Hub:     "hub1",
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want,
			error) {
			return hub()
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	work, err := r.Tracker().Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"),
		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	step := func(what string) {
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: work.Name}})
		list, listErr := client.Resource(configMaps).Namespace("shop").List(ctx, metav1.ListOptions{})
		fmt.Println(what, len(list.Items), "object", errors.Join(err, listErr))
	}
	hub = func() (reconciler.Want, error) {
		return reconciler.Want{Objects: []*unstructured.Unstructured{settings}}, nil
	}
	step("wanted: ")
	hub = func() (reconciler.Want, error) { return reconciler.Want{}, errors.New("the hub cannot be reached") }
	step("lost:   ")
	hub = func() (reconciler.Want, error) { return reconciler.Want{Removed: true}, nil }
	step("removed:")
	// Output:
	// wanted:  1 object <nil>
	// lost:    1 object get the desired objects of work cluster1/shop: the hub cannot be reached
	// removed: 0 object <nil>
}

// Client, Discovery, Desired and Hub are required.
func ExampleNew_invalid() {
	desired := reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
		return reconciler.Want{}, nil
	})
	_, err := reconciler.New(reconciler.Options{Desired: desired, Hub: "hub1"})
	fmt.Println(errors.Is(err, appliedwork.ErrInvalidInput), err)
	_, err = reconciler.New(reconciler.Options{Desired: desired})
	fmt.Println(err)
	// Output:
	// true invalid input: Options.Client is required
	// invalid input: Options.Hub is required: set it to the name of the hub, or set Options.Owns
}
