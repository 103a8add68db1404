// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// mapperOf returns a mapper for Secrets only.
func mapperOf() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	return m
}

// triggersOf runs a watcher of one Secret and returns the triggers of all its reconciles.
func triggersOf(t *testing.T, o dynamicwatcher.Options, change func(name string)) []dynamicwatcher.TriggerType {
	t.Helper()
	var types []dynamicwatcher.TriggerType
	synctest.Test(t, func(t *testing.T) {
		o.Mapper = mapperOf()
		o.Reconciler = dynamicwatcher.ReconcilerFunc(func(ctx context.Context, _ dynamicwatcher.ObjectIdentifier) (
			reconcile.Result, error) {
			for _, trigger := range dynamicwatcher.TriggersFrom(ctx) {
				types = append(types, trigger.Type)
			}
			return reconcile.Result{}, nil
		})
		w, err := dynamicwatcher.New(&o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Start(ctx) }()
		<-w.Started()
		policy := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "policy"}
		watched := dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"}
		if err := w.AddOrUpdateWatcher(policy, watched); err != nil {
			t.Fatal(err)
		}
		if err := w.WaitForSync(ctx, policy); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"create", "another", "update", "delete"} {
			time.Sleep(10 * time.Second)
			change(name)
		}
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return types
}

var wantTypes = []dynamicwatcher.TriggerType{dynamicwatcher.TriggerAdded, dynamicwatcher.TriggerModified,
	dynamicwatcher.TriggerDeleted}

// TestWatchesUseMetadataClient checks that watches use client-go's fake metadata client, and no
// server.
func TestWatchesUseMetadataClient(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	secrets := client.Resource(secretsResource).Namespace("ns").(metadatafake.MetadataClient)
	object := func(name, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version},
		}
	}
	// no effect
	options := dynamicwatcher.Options{Metadata: client, Consolidate: &dynamicwatcher.ConsolidateOptions{MinObjects: 1}}
	got := triggersOf(t, options, func(name string) {
		var err error
		switch name {
		case "create":
			_, err = secrets.CreateFake(object("password", "1"), metav1.CreateOptions{})
		case "another":
			_, err = secrets.CreateFake(object("another", "2"), metav1.CreateOptions{})
		case "update":
			_, err = secrets.UpdateFake(object("password", "3"), metav1.UpdateOptions{})
		case "delete":
			err = client.Resource(secretsResource).Namespace("ns").Delete(t.Context(), "password", metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	if diff := cmp.Diff(wantTypes, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
}

// TestWatchesUseDynamicClient checks the same with a dynamic client, which watches whole objects.
func TestWatchesUseDynamicClient(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{secretsResource: "SecretList"})
	secrets := client.Resource(secretsResource).Namespace("ns")
	object := func(name, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("Secret")
		u.SetNamespace("ns")
		u.SetName(name)
		u.SetResourceVersion(version)
		return u
	}
	got := triggersOf(t, dynamicwatcher.Options{Dynamic: client, EnableCache: true}, func(name string) {
		var err error
		switch name {
		case "create":
			_, err = secrets.Create(t.Context(), object("password", "1"), metav1.CreateOptions{})
		case "another":
			_, err = secrets.Create(t.Context(), object("another", "2"), metav1.CreateOptions{})
		case "update":
			_, err = secrets.Update(t.Context(), object("password", "3"), metav1.UpdateOptions{})
		case "delete":
			err = secrets.Delete(t.Context(), "password", metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	if diff := cmp.Diff(wantTypes, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
}
