// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// CreatedBy is the annotation, with the work's name as its value, on every object that an agent created.
// Objects without it are never deleted: they were there before.
const CreatedBy = "spokewire.github.io/quickstart-work"

// fieldManager is what the agent applies as, unless a work names another.
const fieldManager = "work-agent"

// result is what became of one manifest.
type result struct {
	ordinal int
	// obj is the manifest, with the namespace it goes to; kind is zero if the cluster does not know it.
	obj  *unstructured.Unstructured
	kind kinds.Kind
	// live is the object in the cluster; nil if it is not there.
	live   *unstructured.Unstructured
	config *workv1.ManifestConfigOption
	err    error
}

// appliedObject identifies an object that a work brought to the cluster.
type appliedObject struct {
	kind            kinds.Kind
	namespace, name string
}

func (r result) identity() appliedObject {
	return appliedObject{r.kind, r.obj.GetNamespace(), r.obj.GetName()}
}

// applyAll applies every manifest in order. One that fails does not keep the others from being applied.
func (a *Agent) applyAll(ctx context.Context, w *workv1.ManifestWork) []result {
	results := make([]result, len(w.Spec.Workload.Manifests))
	for i := range results {
		r := a.resolve(ctx, w, i)
		if r.err == nil {
			r.live, r.err = a.apply(ctx, w, r)
		}
		results[i] = r
	}
	return results
}

// resolve reads a manifest and finds its kind, its namespace and its configuration in the work.
func (a *Agent) resolve(ctx context.Context, w *workv1.ManifestWork, ordinal int) result {
	r := result{ordinal: ordinal, obj: &unstructured.Unstructured{}}
	if r.err = r.obj.UnmarshalJSON(w.Spec.Workload.Manifests[ordinal].Raw); r.err != nil {
		return r
	}
	if r.kind, r.err = a.o.Cluster.Kind(ctx, r.obj.GroupVersionKind()); r.err != nil {
		return r
	}
	if r.kind.Namespaced && r.obj.GetNamespace() == "" {
		r.obj.SetNamespace(metav1.NamespaceDefault)
	}
	for i, c := range w.Spec.ManifestConfigs {
		if identifies(c.ResourceIdentifier, r.identity()) {
			r.config = &w.Spec.ManifestConfigs[i]
		}
	}
	return r
}

func identifies(id workv1.ResourceIdentifier, o appliedObject) bool {
	return id.Group == o.kind.GVK.Group && id.Resource == o.kind.Resource && id.Namespace == o.namespace && id.Name == o.name
}

// apply brings one object to the cluster in the way its update strategy says.
func (a *Agent) apply(ctx context.Context, w *workv1.ManifestWork, r result) (*unstructured.Unstructured, error) {
	o := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	strategy := workv1.UpdateStrategyTypeUpdate
	if r.config != nil && r.config.UpdateStrategy != nil {
		strategy = r.config.UpdateStrategy.Type
		// Only this strategy respects the fields of others; Update overwrites them.
		if ssa := r.config.UpdateStrategy.ServerSideApply; strategy == workv1.UpdateStrategyTypeServerSideApply {
			o.Force = ssa != nil && ssa.Force
			if ssa != nil && ssa.FieldManager != "" {
				o.FieldManager = ssa.FieldManager
			}
		}
	}
	live, err := a.o.Cluster.Get(ctx, r.kind, r.obj.GetNamespace(), r.obj.GetName())
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return nil, err
	}
	if strategy == workv1.UpdateStrategyTypeReadOnly {
		return live, err
	}
	if live != nil && strategy == workv1.UpdateStrategyTypeCreateOnly {
		return live, nil
	}
	obj := r.obj.DeepCopy()
	if live == nil || live.GetAnnotations()[CreatedBy] == w.Name {
		// Left out of a later apply, the annotation would go: it is set anew each time.
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[CreatedBy] = w.Name
		obj.SetAnnotations(annotations)
	}
	applied, err := a.o.Cluster.Apply(ctx, r.kind, obj, o)
	if err != nil {
		return live, err
	}
	return applied, nil
}

// prune deletes what an earlier generation of the work brought and this one leaves out.
func (a *Agent) prune(ctx context.Context, w *workv1.ManifestWork, results []result) error {
	wanted := map[appliedObject]bool{}
	var now []appliedObject
	for _, r := range results {
		wanted[r.identity()] = true
		now = append(now, r.identity())
	}
	before, _ := a.applied.Load(w.Name)
	objects, _ := before.([]appliedObject)
	for _, o := range objects {
		if !wanted[o] && !orphaned(w, o) {
			if _, err := a.delete(ctx, w.Name, o); err != nil {
				return fmt.Errorf("delete the %s %q that the work no longer has: %w", o.kind.GVK.Kind, o.name, err)
			}
		}
	}
	a.applied.Store(w.Name, now)
	return nil
}

// delete asks for the removal of an object that the work created. It returns false when there is none, or no
// longer.
func (a *Agent) delete(ctx context.Context, work string, o appliedObject) (present bool, err error) {
	live, err := a.o.Cluster.Get(ctx, o.kind, o.namespace, o.name)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if live.GetAnnotations()[CreatedBy] != work {
		return false, nil
	}
	if live.GetDeletionTimestamp() == nil {
		err = a.o.Cluster.Delete(ctx, o.kind, o.namespace, o.name, live.GetUID())
		// Conflict: somebody made a new object of that name just now. It is looked at once more.
		if gone(err) || apierrors.IsConflict(err) {
			err = nil
		}
	}
	return true, err
}

// gone tells that an object cannot be there: it is not found, or its kind has been removed.
func gone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// orphaned tells whether the work's delete option leaves an object in the cluster.
func orphaned(w *workv1.ManifestWork, o appliedObject) bool {
	option := w.Spec.DeleteOption
	if option == nil {
		return false
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return true
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if option.SelectivelyOrphan != nil {
			for _, rule := range option.SelectivelyOrphan.OrphaningRules {
				if identifies(workv1.ResourceIdentifier(rule), o) {
					return true
				}
			}
		}
	}
	return false
}

// firstError says how many manifests could not be applied and why the first of them.
func firstError(results []result) error {
	var first error
	failed := 0
	for _, r := range results {
		if r.err == nil {
			continue
		}
		failed++
		if first == nil {
			first = fmt.Errorf("%s %q: %w", r.obj.GetKind(), r.obj.GetName(), r.err)
		}
	}
	if failed > 1 {
		return fmt.Errorf("%d of %d manifests not applied, the first being %w", failed, len(results), first)
	}
	return first
}
