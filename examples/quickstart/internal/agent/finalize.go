// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// addFinalizer adds the finalizer of this agent to a work before anything is applied.
func (a *Agent) addFinalizer(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return w, nil
	}
	return a.patchFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer))
}

// finalize removes the work from the cluster, and then its finalizer. It returns true while objects
// are still being deleted.
func (a *Agent) finalize(ctx context.Context, w *workv1.ManifestWork) (again bool, err error) {
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return false, nil
	}
	if again, err := a.o.Cluster.RemoveWork(ctx, w); err != nil || again {
		return again, err
	}
	a.o.Observe(Event{Work: w.Name, Generation: w.Generation, Deleted: true})
	rest := slices.DeleteFunc(slices.Clone(w.Finalizers),
		func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	if _, err = a.patchFinalizers(ctx, w, rest); apierrors.IsNotFound(err) {
		err = nil
	}
	return false, err
}

// patchFinalizers replaces the finalizers, if the work still has the same version.
func (a *Agent) patchFinalizers(
	ctx context.Context, w *workv1.ManifestWork, finalizers []string,
) (*workv1.ManifestWork, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	return a.o.Works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
}
