// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// CreatedBy is the annotation on every object that a work has created. Its value is the name of the
// work. Objects without it are never deleted: they existed before.
const CreatedBy = "spokewire.github.io/quickstart-work"

// fieldManager is the default field manager of works.
const fieldManager = "work-agent"

// ApplyWork applies the manifests in order. It deletes objects that an earlier call applied for the
// work and that the work no longer has. All changes are immediate, so again is always false.
func (c *Cluster) ApplyWork(
	ctx context.Context, w *workv1.ManifestWork,
) (results []cluster.Result, again bool, err error) {
	var brought []cluster.Identity
	failed := false
	for i := range w.Spec.Workload.Manifests {
		r := cluster.Resolve(ctx, c, w, i)
		if r.Err == nil {
			brought = append(brought, r.Identity())
			r.Live, r.Err = c.applyManifest(ctx, w, r)
		}
		failed = failed || r.Err != nil
		results = append(results, r)
	}
	for _, id := range c.broughtBy(w) {
		if slices.Contains(brought, id) {
			continue
		}
		if failed { // the object may belong to a manifest that could not be read
			brought = append(brought, id)
			continue
		}
		if gone := c.deleteOf(ctx, w, id); gone != nil {
			brought = append(brought, id)
			err = errors.Join(err, fmt.Errorf("delete the %s %q that left the work: %w", id.Kind.GVK.Kind, id.Name,
				gone))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brought[w.Name] = brought
	return results, false, err
}

// applyManifest applies one object with its update strategy.
func (c *Cluster) applyManifest(
	ctx context.Context, w *workv1.ManifestWork, r cluster.Result,
) (*unstructured.Unstructured, error) {
	live, err := c.Get(ctx, r.Kind, r.Manifest.GetNamespace(), r.Manifest.GetName())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	switch r.Strategy().Type {
	case workv1.UpdateStrategyTypeReadOnly:
		return live, err
	case workv1.UpdateStrategyTypeCreateOnly:
		if live != nil {
			return live, nil
		}
	}
	obj := r.Manifest.DeepCopy()
	if live == nil || live.GetAnnotations()[CreatedBy] == w.Name {
		// An apply without the annotation would remove it, so it is set each time.
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[CreatedBy] = w.Name
		obj.SetAnnotations(annotations)
	}
	applied, err := c.Apply(ctx, r.Kind, obj, r.ApplyOptions(fieldManager))
	if err != nil {
		return live, err
	}
	return applied, nil
}

// RemoveWork deletes the objects that the work has created, in reverse order, since later ones may
// depend on earlier ones. Deletion is immediate, so again is always false.
func (c *Cluster) RemoveWork(ctx context.Context, w *workv1.ManifestWork) (again bool, err error) {
	for _, id := range slices.Backward(c.broughtBy(w)) {
		err = errors.Join(err, c.deleteOf(ctx, w, id))
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.brought, w.Name)
	}
	return false, err
}

func (c *Cluster) broughtBy(w *workv1.ManifestWork) []cluster.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brought[w.Name]
}

// deleteOf deletes an object if the work has created it, unless its delete option orphans it.
func (c *Cluster) deleteOf(ctx context.Context, w *workv1.ManifestWork, id cluster.Identity) error {
	if id.Orphaned(w.Spec.DeleteOption) {
		return nil
	}
	live, err := c.Get(ctx, id.Kind, id.Namespace, id.Name)
	if err == nil && live.GetAnnotations()[CreatedBy] == w.Name {
		err = c.Delete(ctx, id.Kind, id.Namespace, id.Name, live.GetUID())
	}
	// Conflict: the object was deleted and created again in the meantime.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
