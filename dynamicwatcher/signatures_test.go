// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// objectID shortens the following signatures.
type objectID = dynamicwatcher.ObjectIdentifier

// peer is the interface DynamicWatcher of kubernetes-dependency-watches v0.10.0, except for
// GetWatchCount. GetWatchCount returns a uint there and an int in the source document.
type peer interface {
	AddWatcher(watcher objectID, watchedObject objectID) error
	AddOrUpdateWatcher(watcher objectID, watchedObjects ...objectID) error
	RemoveWatcher(watcher objectID) error
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Get(watcher objectID, gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	GetFromCache(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	List(watcher objectID, gvk schema.GroupVersionKind, namespace string, selector labels.Selector) (
		[]unstructured.Unstructured, error)
	ListFromCache(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured,
		error)
	ListWatchedFromCache(watcher objectID) ([]unstructured.Unstructured, error)
	StartQueryBatch(watcher objectID) error
	EndQueryBatch(watcher objectID) error
	GVKToGVR(gvk schema.GroupVersionKind) (dynamicwatcher.ScopedGVR, error)
}

// peerCache is the interface ObjectCache of kubernetes-dependency-watches.
type peerCache interface {
	Get(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error)
	FromObjectIdentifier(objID objectID) ([]unstructured.Unstructured, error)
	CacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector, objects []unstructured.Unstructured)
	CacheObject(gvk schema.GroupVersionKind, namespace string, name string, object *unstructured.Unstructured)
	CacheFromObjectIdentifier(objID objectID, objects []unstructured.Unstructured)
	UncacheObject(gvk schema.GroupVersionKind, namespace string, name string)
	UncacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector)
	UncacheFromObjectIdentifier(objID objectID)
	GVKToGVR(gvk schema.GroupVersionKind) (dynamicwatcher.ScopedGVR, error)
	Clear()
}

// Code that was written for kubernetes-dependency-watches, or for the source document, compiles
// with these types.
var (
	_ peer                                                           = dynamicwatcher.DynamicWatcher(nil)
	_ interface{ GetWatchCount() int }                               = dynamicwatcher.DynamicWatcher(nil)
	_ interface{ Validate() error }                                  = objectID{}
	_ func(*dynamicwatcher.Options) (*dynamicwatcher.Watcher, error) = dynamicwatcher.New

	_ func(*rest.Config, dynamicwatcher.Reconciler, *dynamicwatcher.Options) (*dynamicwatcher.Watcher,
		error) = dynamicwatcher.NewForConfig

	_ = func(d dynamic.Interface, lookups discovery.DiscoveryInterface, r dynamicwatcher.Reconciler) {
		var _ dynamicwatcher.DynamicWatcher = dynamicwatcher.NewWithClients(d, lookups, r, nil)
	}
	_ func(discovery.DiscoveryInterface,
		dynamicwatcher.ObjectCacheOptions) dynamicwatcher.ObjectCache = dynamicwatcher.NewObjectCache

	_ peerCache = dynamicwatcher.ObjectCache(nil)

	_ = dynamicwatcher.ScopedGVR{GroupVersionResource: schema.GroupVersionResource{}, Namespaced: true}
	_ = objectID{Group: "", Version: "v1", Kind: "Secret", Namespace: "ns", Name: "", Selector: "a=b"}
	_ = []error{
		dynamicwatcher.ErrNotStarted, dynamicwatcher.ErrCacheDisabled, dynamicwatcher.ErrInvalidInput,
		dynamicwatcher.ErrNoVersionedResource,
		dynamicwatcher.ErrQueryBatchInProgress, dynamicwatcher.ErrQueryBatchNotStarted, dynamicwatcher.ErrResourceUnwatchable,
		dynamicwatcher.ErrWatchStopping, dynamicwatcher.ErrNoCacheEntry,
	}
)

// peerReconciler is a reconciler that implements the interfaces of both packages.
type peerReconciler struct{}

func (peerReconciler) Reconcile(context.Context, objectID) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

var _ dynamicwatcher.Reconciler = peerReconciler{}
