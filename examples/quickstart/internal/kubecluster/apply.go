// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// fieldManager is the default prefix of the field managers of works.
const fieldManager = "work-agent"

// applyAll applies the objects of the results in one call, so that namespaces and definitions are
// first. The error is that of the inventory. Other errors are in the results.
func (c *Cluster) applyAll(
	ctx context.Context, record *v1alpha1.AppliedWork, results []cluster.Result, policies appliedwork.Policies,
) error {
	options := appliedwork.ApplyOptions{
		Adoption: appliedwork.AdoptionIfUnowned, Policies: policies, FieldManager: fieldManager,
		ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{},
	}
	var of []int
	for i := range results {
		r := &results[i]
		// The work itself may define a missing kind: Apply handles this.
		if r.Err != nil && !meta.IsNoMatchError(r.Err) || r.Err == nil && c.stays(ctx, r) {
			continue
		}
		of = append(of, i)
		if key, err := appliedwork.Identify(r.Manifest); err == nil {
			if r.Kind.Resource != "" && !r.Kind.Namespaced {
				key.Namespace = "" // as in Apply
			}
			o := r.ApplyOptions(fieldManager)
			options.ByKey[key] = appliedwork.ObjectOptions{FieldManager: o.FieldManager, Force: o.Force}
		}
	}
	if len(of) == 0 {
		return nil
	}
	return c.applyGroup(ctx, record, results, of, options)
}

// stays reports whether the update strategy keeps the object unchanged.
func (c *Cluster) stays(ctx context.Context, r *cluster.Result) bool {
	switch r.Strategy().Type {
	case workv1.UpdateStrategyTypeReadOnly:
		return true
	case workv1.UpdateStrategyTypeCreateOnly:
		_, err := c.object(ctx, *r)
		if err != nil && !apierrors.IsNotFound(err) {
			r.Err = err
		}
		return !apierrors.IsNotFound(err)
	}
	return false
}

// applyGroup applies objects, and adopts existing ones without owners. Objects of other works are
// shared: the last work with an object deletes it.
func (c *Cluster) applyGroup(
	ctx context.Context, record *v1alpha1.AppliedWork, results []cluster.Result, of []int,
	options appliedwork.ApplyOptions,
) error {
	changes, err := c.apply(ctx, record, results, of, options)
	var shared []int
	for n, change := range changes.Entries {
		var refused *appliedwork.AdoptionError
		if errors.As(change.Err, &refused) && allAppliedWorks(refused.Owners) {
			shared = append(shared, of[n])
		}
	}
	if len(shared) > 0 {
		options.Adoption = appliedwork.AdoptionAlways
		_, adoptErr := c.apply(ctx, record, results, shared, options)
		err = errors.Join(err, adoptErr)
	}
	return err
}

// apply applies some of the objects, and stores their errors in the results. The returned error is
// that of the inventory.
func (c *Cluster) apply(
	ctx context.Context, record *v1alpha1.AppliedWork, results []cluster.Result, of []int,
	options appliedwork.ApplyOptions,
) (*appliedwork.ChangeSet, error) {
	some := make([]cluster.Result, len(of))
	for n, i := range of {
		some[n] = results[i]
	}
	changes, err := c.applier.Apply(ctx, record, manifests(some), options)
	for n, i := range of {
		if len(changes.Entries) == 0 {
			results[i].Err = err // nothing was applied at all
			continue
		}
		results[i].Err = changes.Entries[n].Err
	}
	if changes.Err() != nil {
		err = nil // in the results
	}
	return changes, err
}

func allAppliedWorks(owners []metav1.OwnerReference) bool {
	return !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return o.APIVersion != v1alpha1.GroupVersion.String() || o.Kind != v1alpha1.Kind
	})
}
