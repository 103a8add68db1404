// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
)

// agent serves the works of one namespace.
type agent struct {
	cluster *Cluster
	works   worktyped.ManifestWorkInterface
	store   cache.Store
	queue   workqueue.TypedRateLimitingInterface[string]
}

// Run serves the works of a namespace until ctx ends. It returns when all its goroutines have
// ended. Only one Run at a time may serve a cluster.
func Run(ctx context.Context, cluster *Cluster, works workclientset.Interface, namespace string) error {
	factory := workinformers.NewSharedInformerFactoryWithOptions(works, 0, workinformers.WithNamespace(namespace))
	informer := factory.Work().V1().ManifestWorks().Informer()
	a := &agent{
		cluster: cluster, works: works.WorkV1().ManifestWorks(namespace), store: informer.GetStore(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	defer cluster.serve(a)()
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			a.queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	var worker sync.WaitGroup
	worker.Go(func() {
		for cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && a.next(ctx) {
		}
	})
	<-ctx.Done()
	a.queue.ShutDown()
	worker.Wait()
	return nil
}

func (a *agent) next(ctx context.Context) bool {
	key, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(key)
	obj, exists, err := a.store.GetByKey(key)
	switch {
	case err == nil && !exists:
		_, name, _ := strings.Cut(key, "/")
		a.cluster.prune(name, nil)
	case err == nil:
		err = a.reconcile(ctx, obj.(*workv1.ManifestWork).DeepCopy())
	}
	if err != nil {
		a.queue.AddRateLimited(key)
		return true
	}
	a.queue.Forget(key)
	return true
}

func (a *agent) reconcile(ctx context.Context, w *workv1.ManifestWork) error {
	if w.DeletionTimestamp != nil {
		return a.finalize(ctx, w)
	}
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		// The change queues the work again.
		return a.patch(ctx, w, map[string]any{"metadata": map[string]any{
			"resourceVersion": w.ResourceVersion, "finalizers": append(w.Finalizers, workv1.ManifestWorkFinalizer),
		}})
	}
	before := w.DeepCopy().Status
	w.Status.ResourceStatus.Manifests = nil
	keep := map[string]bool{}
	var failures []error
	for i, m := range w.Spec.Workload.Manifests {
		h, err := a.cluster.apply(w.Name, m.Raw)
		if err != nil {
			failures = append(failures, err)
		}
		keep[h.String()] = true
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests,
			a.cluster.reported(h.String(), report(w, int32(i), h, err)))
	}
	a.cluster.prune(w.Name, keep)
	failed := errors.Join(failures...)
	set(&w.Status.Conditions, w, workv1.WorkApplied, failed)
	set(&w.Status.Conditions, w, workv1.WorkAvailable, failed)
	if equal(before, w.Status) {
		return failed
	}
	err := a.patch(ctx, w, map[string]any{"status": map[string]any{
		"conditions": w.Status.Conditions, "resourceStatus": map[string]any{"manifests": w.Status.ResourceStatus.Manifests},
	}}, "status")
	return errors.Join(failed, err)
}

func report(w *workv1.ManifestWork, ordinal int32, h header, err error) workv1.ManifestCondition {
	_, version, ok := strings.Cut(h.APIVersion, "/")
	if !ok {
		version = h.APIVersion
	}
	m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
		Ordinal: ordinal, Group: h.group(), Version: version, Kind: h.Kind, Resource: strings.ToLower(h.Kind) + "s",
		Namespace: h.Metadata.Namespace, Name: h.Metadata.Name,
	}}
	set(&m.Conditions, w, workv1.ManifestApplied, err)
	set(&m.Conditions, w, workv1.ManifestAvailable, err)
	return m
}

// set sets a condition, with the status False for an error. Its time is the creation time of the
// work, because equal statuses must be equal.
func set(conditions *[]metav1.Condition, w *workv1.ManifestWork, kind string, err error) {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: w.Generation,
		LastTransitionTime: w.CreationTimestamp,
	}
	if err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Failed", err.Error()
	}
	meta.SetStatusCondition(conditions, c)
	for i := range *conditions {
		(*conditions)[i].LastTransitionTime = w.CreationTimestamp
	}
}

func equal(a, b workv1.ManifestWorkStatus) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// finalize deletes all objects of the work and removes the finalizer.
func (a *agent) finalize(ctx context.Context, w *workv1.ManifestWork) error {
	a.cluster.prune(w.Name, nil)
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return nil
	}
	rest := slices.DeleteFunc(w.Finalizers, func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	err := a.patch(ctx, w,
		map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "finalizers": rest}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (a *agent) patch(
	ctx context.Context, w *workv1.ManifestWork, change map[string]any, subresources ...string,
) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if _, err := a.works.Patch(ctx, w.Name, types.MergePatchType, data, metav1.PatchOptions{},
		subresources...); err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	return nil
}
