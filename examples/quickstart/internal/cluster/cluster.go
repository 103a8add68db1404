// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster is what a work agent wants of the cluster that it serves: to bring a work there, and to take it away.
// Package memcluster has clusters in memory, package kubecluster real ones.
package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// Cluster takes works. Its methods may be called concurrently, for each work by one caller at a time.
type Cluster interface {
	Kinds
	// ApplyWork brings the objects of a work to the cluster, and takes away what it has brought for the work before and is
	// not in the work any more. The results are of all manifests, in their order: one that fails does not keep the others
	// from being applied. The error is of what is taken away. While the cluster is still busy with that, again is true.
	ApplyWork(ctx context.Context, w *workv1.ManifestWork) (results []Result, again bool, err error)
	// RemoveWork takes away what was brought for a work, as its delete option has it. While the cluster is still busy with
	// that, again is true. For a work that has nothing there is nothing to do.
	RemoveWork(ctx context.Context, w *workv1.ManifestWork) (again bool, err error)
}

// Kinds knows the kinds of a cluster.
type Kinds interface {
	// Kind resolves a kind. Where the cluster does not have it (yet), the error satisfies meta.IsNoMatchError.
	Kind(ctx context.Context, gvk schema.GroupVersionKind) (kinds.Kind, error)
}

// Result is what became of one manifest.
type Result struct {
	Ordinal int
	// Manifest has the namespace that it goes to. It is empty, and not nil, if it could not be decoded.
	Manifest *unstructured.Unstructured
	// Kind is zero if the cluster does not know it.
	Kind kinds.Kind
	// Config is what the work says about the object; nil if it says nothing.
	Config *workv1.ManifestConfigOption
	// Live is the object in the cluster; nil if it is not there.
	Live *unstructured.Unstructured
	// Err is why the manifest could not be applied.
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

// Strategy is how the object is to be updated.
func (r Result) Strategy() workv1.UpdateStrategy {
	if r.Config == nil || r.Config.UpdateStrategy == nil {
		return workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
	}
	return *r.Config.UpdateStrategy
}

// ApplyOptions are those of the object's strategy, for a manager if the strategy does not name another.
func (r Result) ApplyOptions(manager string) metav1.ApplyOptions {
	o := metav1.ApplyOptions{FieldManager: manager, Force: true}
	// Only this strategy respects the fields of others; Update overwrites them.
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

// Identity of the object.
func (r Result) Identity() Identity {
	return Identity{r.Kind, r.Manifest.GetNamespace(), r.Manifest.GetName()}
}

func (i Identity) is(id workv1.ResourceIdentifier) bool {
	return id.Group == i.Kind.GVK.Group && id.Resource == i.Kind.Resource && id.Namespace == i.Namespace && id.Name == i.Name
}

// Orphaned tells whether the delete option of a work leaves an object in the cluster.
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
