// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster has the interface between a work agent and its cluster: applying and removing
// works. Package memcluster has clusters in memory, package kubecluster real ones.
package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// Cluster applies and removes works. Its methods may be called concurrently, but only once at a
// time for each work.
type Cluster interface {
	Kinds
	// ApplyWork applies the objects of a work to the cluster, and deletes earlier objects of the
	// work that it no longer has. It returns the results of all manifests, in their order: a failed
	// manifest does not block the others. The error is that of the deletion. again is true while
	// the deletion has not finished.
	ApplyWork(ctx context.Context, w *workv1.ManifestWork) (results []Result, again bool, err error)
	// RemoveWork deletes or orphans the objects of a work, according to its delete option. again is
	// true while the deletion has not finished. It does nothing for a work without objects.
	RemoveWork(ctx context.Context, w *workv1.ManifestWork) (again bool, err error)
}

// Kinds returns the kinds of a cluster.
type Kinds interface {
	// Kind returns a kind. If the cluster does not have it (yet), the error satisfies
	// meta.IsNoMatchError.
	Kind(ctx context.Context, gvk schema.GroupVersionKind) (kinds.Kind, error)
}

// Result is the result of applying one manifest.
type Result struct {
	Ordinal int
	// Manifest has its namespace set. It is empty, and not nil, if it could not be decoded.
	Manifest *unstructured.Unstructured
	// Kind is zero if the cluster does not have it.
	Kind kinds.Kind
	// Config is the configuration of the object in the work, or nil.
	Config *workv1.ManifestConfigOption
	// Live is the object on the cluster, or nil if it does not exist.
	Live *unstructured.Unstructured
	// Err is the reason why the manifest could not be applied.
	Err error
}

// Resolve reads a manifest of a work and finds its kind, its namespace and its configuration.
func Resolve(ctx context.Context, known Kinds, w *workv1.ManifestWork, ordinal int) Result {
	r := Result{Ordinal: ordinal, Manifest: &unstructured.Unstructured{}}
	if r.Err = r.Manifest.UnmarshalJSON(w.Spec.Workload.Manifests[ordinal].Raw); r.Err != nil {
		r.Manifest = &unstructured.Unstructured{}
		return r
	}
	if r.Kind, r.Err = known.Kind(ctx, r.Manifest.GroupVersionKind()); r.Err != nil {
		return r
	}
	if r.Kind.Namespaced && r.Manifest.GetNamespace() == "" {
		r.Manifest.SetNamespace(metav1.NamespaceDefault)
	}
	for i, c := range w.Spec.ManifestConfigs {
		if r.Identity().is(c.ResourceIdentifier) {
			r.Config = &w.Spec.ManifestConfigs[i]
		}
	}
	return r
}

// Strategy returns the update strategy of the object.
func (r Result) Strategy() workv1.UpdateStrategy {
	if r.Config == nil || r.Config.UpdateStrategy == nil {
		return workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
	}
	return *r.Config.UpdateStrategy
}

// ApplyOptions returns the options of the object's strategy, with a default field manager.
func (r Result) ApplyOptions(manager string) metav1.ApplyOptions {
	o := metav1.ApplyOptions{FieldManager: manager, Force: true}
	// Only this strategy respects fields of other managers; Update overwrites them.
	if s := r.Strategy(); s.Type == workv1.UpdateStrategyTypeServerSideApply {
		o.Force = s.ServerSideApply != nil && s.ServerSideApply.Force
		if s.ServerSideApply != nil && s.ServerSideApply.FieldManager != "" {
			o.FieldManager = s.ServerSideApply.FieldManager
		}
	}
	return o
}

// Identity identifies an object on a cluster.
type Identity struct {
	Kind            kinds.Kind
	Namespace, Name string
}

// Identity returns the identity of the object.
func (r Result) Identity() Identity {
	return Identity{r.Kind, r.Manifest.GetNamespace(), r.Manifest.GetName()}
}

func (i Identity) is(id workv1.ResourceIdentifier) bool {
	return id.Group == i.Kind.GVK.Group && id.Resource == i.Kind.Resource && id.Namespace == i.Namespace &&
		id.Name == i.Name
}

// Orphaned reports whether the delete option of a work orphans an object.
func (i Identity) Orphaned(option *workv1.DeleteOption) bool {
	if option == nil {
		return false
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return true
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if option.SelectivelyOrphan != nil {
			for _, rule := range option.SelectivelyOrphan.OrphaningRules {
				if i.is(workv1.ResourceIdentifier(rule)) {
					return true
				}
			}
		}
	}
	return false
}
