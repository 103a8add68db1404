// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// agent applies the works of one cluster and reports the results in their status. A work may fail
// until another work has created its namespace or its kind: the agent retries it.
type agent struct {
	cluster *cluster
	works   workclientset.Interface
	print   func(format string, args ...any)
	lister  worklisters.ManifestWorkNamespaceLister
}

// start serves works until ctx ends.
func (a *agent) start(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 5*time.Second))
	factory := workinformers.NewSharedInformerFactoryWithOptions(a.works, 0, workinformers.WithNamespace(a.cluster.name))
	informer := factory.Work().V1().ManifestWorks()
	a.lister = informer.Lister().ManifestWorks(a.cluster.name)
	add := func(obj any) { queue.Add(obj.(*workv1.ManifestWork).Name) }
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		if err := a.reconcile(ctx, name); err != nil {
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// reconcile applies or removes one work.
func (a *agent) reconcile(ctx context.Context, name string) error {
	w, err := a.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if w.DeletionTimestamp != nil {
		return a.finalize(ctx, w)
	}
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		// The informer adds the work again with the finalizer.
		return a.setFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer))
	}
	if applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); applied != nil &&
		applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == w.Generation {
		return nil // this change is the own report
	}
	problem := a.cluster.apply(ctx, w)
	if problem == nil {
		a.print("  applied   %s on %s", w.Name, a.cluster.name)
	}
	if err := a.report(ctx, w, problem); err != nil {
		return err
	}
	return problem
}

// report patches the status, if it has changed.
func (a *agent) report(ctx context.Context, w *workv1.ManifestWork, problem error) error {
	c := metav1.Condition{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete",
		ObservedGeneration: w.Generation,
	}
	if problem != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "AppliedManifestWorkFailed", problem.Error()
	}
	conditions := slices.Clone(w.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, c) {
		return nil
	}
	return a.patch(ctx, w, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
}

// finalize deletes the objects of the work, and then its finalizer.
func (a *agent) finalize(ctx context.Context, w *workv1.ManifestWork) error {
	i := slices.Index(w.Finalizers, workv1.ManifestWorkFinalizer)
	if i < 0 {
		return nil
	}
	if err := a.cluster.remove(ctx, w); err != nil {
		return err
	}
	a.print("  removed   %s on %s", w.Name, a.cluster.name)
	return a.setFinalizers(ctx, w, slices.Delete(slices.Clone(w.Finalizers), i, i+1))
}

// setFinalizers replaces the finalizers, if the work still has the same version.
func (a *agent) setFinalizers(ctx context.Context, w *workv1.ManifestWork, finalizers []string) error {
	return a.patch(ctx, w, map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, "finalizers": finalizers,
	}})
}

func (a *agent) patch(ctx context.Context, w *workv1.ManifestWork, content any, subresources ...string) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	_, err = a.works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, subresources...)
	return err
}
