// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// addFinalizer makes sure that the work waits for this agent when it is deleted, before anything is applied.
func (a *Agent) addFinalizer(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return w, nil
	}
	return a.patchFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer))
}

// finalize deletes the work's objects, the last first since later ones build on earlier ones, and lets go of
// the work when none is left. It returns true while the cluster is still busy removing some.
func (a *Agent) finalize(ctx context.Context, w *workv1.ManifestWork) (again bool, err error) {
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return false, nil
	}
	var errs []error
	objects := a.objectsOf(ctx, w)
	removed := 0
	for _, o := range slices.Backward(objects) {
		if orphaned(w, o) {
			continue
		}
		present, err := a.delete(ctx, w.Name, o)
		if present && err == nil {
			// Many objects are gone at once; others, such as namespaces, take their time.
			_, err = a.o.Cluster.Get(ctx, o.kind, o.namespace, o.name)
			present = !gone(err)
			if !present {
				err = nil
			}
			removed++
		}
		again = again || present
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || again {
		return again, err
	}
	a.o.Observe(Event{Work: w.Name, Generation: w.Generation, Deleted: true, Objects: removed})
	rest := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	if _, err = a.patchFinalizers(ctx, w, rest); apierrors.IsNotFound(err) {
		err = nil
	}
	return false, err
}

// objectsOf lists what the work may have in the cluster: what was applied since this agent started and, as it
// may have been another process, what the work asks for.
func (a *Agent) objectsOf(ctx context.Context, w *workv1.ManifestWork) []appliedObject {
	before, _ := a.applied.Load(w.Name)
	objects, _ := before.([]appliedObject)
	objects = slices.Clone(objects)
	for i := range w.Spec.Workload.Manifests {
		// A kind that is unknown now has no objects either.
		if r := a.resolve(ctx, w, i); r.err == nil && !slices.Contains(objects, r.identity()) {
			objects = append(objects, r.identity())
		}
	}
	return objects
}

// patchFinalizers replaces the finalizers of this very version of the work.
func (a *Agent) patchFinalizers(ctx context.Context, w *workv1.ManifestWork, finalizers []string) (*workv1.ManifestWork, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	return a.o.Works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
