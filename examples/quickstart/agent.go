// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// agent applies the works of a cluster. It ends at the first error; examples/agent retries.
type agent struct {
	name    string
	works   worktyped.ManifestWorkInterface
	cluster dynamic.Interface
	out     *log.Logger
}

// run reconciles each work that arrives or changes.
func (a *agent) run(ctx context.Context) error {
	events, err := a.works.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for event := range events.ResultChan() { // closed when ctx ends
		w, ok := event.Object.(*workv1.ManifestWork)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		if event.Type == watch.Deleted || applied(w) && w.DeletionTimestamp == nil {
			continue // an event of the agent's own last change
		}
		// After a conflict, another event has the newer work.
		if err := a.reconcile(ctx, w); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
			return fmt.Errorf("work %s on %s: %w", w.Name, a.name, err)
		}
	}
	return nil
}

// reconcile applies a work and reports it, or deletes the objects of a deleted work.
func (a *agent) reconcile(ctx context.Context, w *workv1.ManifestWork) error {
	if w.DeletionTimestamp == nil && len(w.Finalizers) == 0 {
		w.Finalizers = []string{workv1.ManifestWorkFinalizer} // the next event has it
		_, err := a.works.Update(ctx, w, metav1.UpdateOptions{})
		return err
	}
	if err := a.write(ctx, w); err != nil {
		return err
	}
	if w.DeletionTimestamp != nil {
		w.Finalizers = nil // now the work is gone
		_, err := a.works.Update(ctx, w, metav1.UpdateOptions{})
		return err
	}
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{Type: workv1.WorkApplied,
		Status: metav1.ConditionTrue, Reason: "AllApplied", ObservedGeneration: w.Generation})
	_, err := a.works.UpdateStatus(ctx, w, metav1.UpdateOptions{})
	return err
}

// write applies the objects of a work, or deletes them with the work.
func (a *agent) write(ctx context.Context, w *workv1.ManifestWork) error {
	for _, manifest := range w.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(manifest.Raw); err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind()) // a real agent has a RESTMapper
		client := a.cluster.Resource(resource).Namespace(o.GetNamespace())
		if w.DeletionTimestamp != nil {
			a.out.Printf("%s: delete %s %s", a.name, o.GetKind(), o.GetName())
			if err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			continue
		}
		a.out.Printf("%s: apply %s %s: %v", a.name, o.GetKind(), o.GetName(), o.Object["data"])
		_, err := client.Update(ctx, o, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applied returns whether the agent has applied the present generation of a work.
func applied(w *workv1.ManifestWork) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	return c != nil && c.ObservedGeneration == w.Generation
}
