// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
)

// workAgent is a work controller of a managed cluster. It applies the manifests of works with
// server-side apply, reports their status, and cleans up. It does not depend on CloudEvents.
type workAgent struct {
	t       *testing.T
	works   worktyped.ManifestWorkInterface
	store   cache.Store
	cluster string
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	queue   workqueue.TypedRateLimitingInterface[string]
}

// runWorkAgent runs the controller until ctx and its goroutines have ended.
func runWorkAgent(
	ctx context.Context, t *testing.T, works workclientset.Interface, cluster string, config *rest.Config,
) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	factory := workinformers.NewSharedInformerFactoryWithOptions(works, 0, workinformers.WithNamespace(cluster))
	informer := factory.Work().V1().ManifestWorks().Informer()
	a := &workAgent{
		t: t, works: works.WorkV1().ManifestWorks(cluster), store: informer.GetStore(), cluster: cluster,
		dynamic: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	enqueue := func(obj any) {
		if w, ok := obj.(*workv1.ManifestWork); ok {
			a.queue.Add(w.Name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	var workers sync.WaitGroup
	workers.Go(func() {
		for a.next(ctx) {
		}
	})
	<-ctx.Done()
	a.queue.ShutDown()
	workers.Wait()
	return nil
}

func (a *workAgent) next(ctx context.Context) bool {
	name, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(name)
	obj, ok, err := a.store.GetByKey(a.cluster + "/" + name)
	if err != nil || !ok {
		return true
	}
	if err := a.reconcile(ctx, obj.(*workv1.ManifestWork).DeepCopy()); err != nil && ctx.Err() == nil {
		a.t.Logf("%s: %s: %v", a.cluster, name, err)
		a.queue.AddRateLimited(name)
		return true
	}
	a.queue.Forget(name)
	return true
}

func (a *workAgent) reconcile(ctx context.Context, w *workv1.ManifestWork) error {
	if w.DeletionTimestamp != nil {
		return a.cleanUp(ctx, w)
	}
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		w.Finalizers = append(w.Finalizers, workv1.ManifestWorkFinalizer)
		_, err := a.works.Update(ctx, w, metav1.UpdateOptions{})
		return err // the update queues the work again
	}
	var failures []error
	var conditions []workv1.ManifestCondition
	for i, m := range w.Spec.Workload.Manifests {
		gvr, err := a.apply(ctx, m.Raw)
		if err != nil {
			failures = append(failures, fmt.Errorf("manifest %d: %w", i, err))
		}
		conditions = append(conditions, manifestCondition(int32(i), gvr.Resource, m.Raw, err))
	}
	return errors.Join(append(failures, a.report(ctx, w, conditions, errors.Join(failures...)))...)
}

func manifestCondition(ordinal int32, resource string, raw []byte, err error) workv1.ManifestCondition {
	var head metav1.PartialObjectMetadata
	_ = json.Unmarshal(raw, &head)
	c := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "Applied",
		LastTransitionTime: metav1.Now().Rfc3339Copy()}
	if err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "ApplyFailed", err.Error()
	}
	gvk := head.GroupVersionKind()
	return workv1.ManifestCondition{
		ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: ordinal, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Resource: resource,
			Name: head.Name, Namespace: head.Namespace,
		},
		Conditions: []metav1.Condition{c},
	}
}

// report patches the status, if it has changed.
func (a *workAgent) report(
	ctx context.Context, w *workv1.ManifestWork, manifests []workv1.ManifestCondition, failed error,
) error {
	c := metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied",
		Message: "all manifests are applied", ObservedGeneration: w.Generation,
	}
	if failed != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "ApplyFailed", failed.Error()
	}
	if !meta.SetStatusCondition(&w.Status.Conditions, c) && len(w.Status.ResourceStatus.Manifests) == len(manifests) {
		return nil
	}
	w.Status.ResourceStatus.Manifests = manifests
	patch, err := json.Marshal(map[string]any{"status": w.Status})
	if err != nil {
		return err
	}
	_, err = a.works.Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (a *workAgent) client(obj *unstructured.Unstructured) (dynamic.ResourceInterface, *meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		a.mapper.Reset() // the kind may be of a CRD that was just applied
		return nil, nil, err
	}
	resource := a.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return resource.Namespace(obj.GetNamespace()), mapping, nil
	}
	return resource, mapping, nil
}

func (a *workAgent) apply(ctx context.Context, raw []byte) (gvr struct{ Resource string }, err error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		return gvr, err
	}
	client, mapping, err := a.client(obj)
	if err != nil {
		return gvr, err
	}
	gvr.Resource = mapping.Resource.Resource
	_, err = client.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "work-agent", Force: true})
	return gvr, err
}

// cleanUp deletes the objects in reverse order, and removes the finalizer of the work after all
// objects are gone.
func (a *workAgent) cleanUp(ctx context.Context, w *workv1.ManifestWork) error {
	left := 0
	for _, m := range slices.Backward(w.Spec.Workload.Manifests) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(m.Raw); err != nil {
			return err
		}
		client, _, err := a.client(obj)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		switch err := client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); {
		case err == nil:
			left++
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%d objects are being deleted", left)
	}
	patch := []byte(`{"metadata":{"finalizers":[]}}`)
	_, err := a.works.Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
