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

// addFinalizer makes sure that the work waits for this agent when it is deleted, before anything is applied.
func (a *Agent) addFinalizer(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return w, nil
	}
	return a.patchFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer))
}

// finalize takes the work from the cluster, and lets go of it when nothing of it is left there. It returns true while
// the cluster is still busy.
func (a *Agent) finalize(ctx context.Context, w *workv1.ManifestWork) (again bool, err error) {
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return false, nil
	}
	if again, err := a.o.Cluster.RemoveWork(ctx, w); err != nil || again {
		return again, err
	}
	a.o.Observe(Event{Work: w.Name, Generation: w.Generation, Deleted: true})
	rest := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	if _, err = a.patchFinalizers(ctx, w, rest); apierrors.IsNotFound(err) {
		err = nil
	}
	return false, err
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
