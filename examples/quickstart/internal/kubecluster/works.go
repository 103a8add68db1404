// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// ApplyWork applies the manifests for the work's AppliedWork, and prunes its other objects.
func (c *Cluster) ApplyWork(
	ctx context.Context, w *workv1.ManifestWork,
) (results []cluster.Result, again bool, err error) {
	for i := range w.Spec.Workload.Manifests {
		results = append(results, cluster.Resolve(ctx, c, w, i))
	}
	record, err := c.record(ctx, w)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results, false, nil
	}
	policies := policies(w.Spec.DeleteOption)
	applyErr := c.applyAll(ctx, record, results, policies)
	// AllowEmpty: a work without manifests is valid.
	opts := appliedwork.PruneOptions{Policies: policies, AllowEmpty: true}
	pruned, pruneErr := c.pruner.Prune(ctx, record, manifests(results), opts)
	for i := range results {
		c.look(ctx, w, &results[i])
	}
	return results, !pruned.Done(), errors.Join(applyErr, pruneErr)
}

// RemoveWork tears down or releases the work's AppliedWork, according to the delete option.
func (c *Cluster) RemoveWork(ctx context.Context, w *workv1.ManifestWork) (again bool, err error) {
	if err := c.install(ctx); err != nil {
		return false, err
	}
	record, err := c.get(ctx, w)
	if apierrors.IsNotFound(err) {
		return false, nil // done, or never applied
	}
	if err != nil {
		return false, err
	}
	policies := policies(w.Spec.DeleteOption)
	var changes *appliedwork.ChangeSet
	if policies.Default == appliedwork.PolicyOrphan {
		changes, err = c.collector.Release(ctx, record, appliedwork.ReleaseOptions{})
	} else {
		changes, err = c.collector.Teardown(ctx, record, appliedwork.TeardownOptions{Policies: policies})
	}
	return err == nil && !changes.Done(), err
}

// record returns the AppliedWork of a work.
func (c *Cluster) record(ctx context.Context, w *workv1.ManifestWork) (*v1alpha1.AppliedWork, error) {
	if err := c.install(ctx); err != nil {
		return nil, err
	}
	record, err := c.tracker.Ensure(ctx, c.recordName(w),
		v1alpha1.AppliedWorkSpec{WorkNamespace: w.Namespace, WorkName: w.Name})
	if err != nil {
		return nil, err
	}
	return record, c.audit(ctx, record)
}

func (c *Cluster) recordName(w *workv1.ManifestWork) string {
	return appliedwork.NameFor(c.hub, w.Namespace, w.Name)
}

// get returns the AppliedWork of a work, which may be terminating.
func (c *Cluster) get(ctx context.Context, w *workv1.ManifestWork) (*v1alpha1.AppliedWork, error) {
	raw, err := c.client.Resource(v1alpha1.GroupVersionResource).Get(ctx, c.recordName(w), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	record := &v1alpha1.AppliedWork{}
	return record, runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, record)
}

// install installs the CRD, once.
func (c *Cluster) install(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.installed {
		return nil
	}
	if err := v1alpha1.EnsureCRD(ctx, c.client.Resource(v1alpha1.CRDResource)); err != nil {
		return err
	}
	c.installed = true
	return nil
}

// audit records, once, objects that a request of an earlier process created after the process had
// ended. AppliedWorks that this process has created need no audit.
func (c *Cluster) audit(ctx context.Context, record *v1alpha1.AppliedWork) error {
	c.mu.Lock()
	known := c.audited[record.UID]
	c.mu.Unlock()
	if known {
		return nil
	}
	if len(record.Status.AppliedResources) > 0 {
		if _, err := c.collector.Audit(ctx, record, appliedwork.AuditOptions{Record: true}); err != nil {
			return fmt.Errorf("audit AppliedWork %s: %w", record.Name, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audited[record.UID] = true
	return nil
}

// look reads the current object if its kind exists.
func (c *Cluster) look(ctx context.Context, w *workv1.ManifestWork, r *cluster.Result) {
	if r.Kind.Resource == "" { // this work may have defined it
		if now := cluster.Resolve(ctx, c, w, r.Ordinal); now.Err == nil {
			r.Manifest, r.Kind, r.Config = now.Manifest, now.Kind, now.Config
		}
	}
	if r.Kind.Resource == "" {
		return
	}
	live, err := c.object(ctx, *r)
	switch {
	case err == nil:
		r.Live = live
	case r.Err == nil:
		r.Err = err
	}
}

// object reads an object of the cluster.
func (c *Cluster) object(ctx context.Context, r cluster.Result) (*unstructured.Unstructured, error) {
	resources := c.client.Resource(r.Kind.GVR())
	if r.Kind.Namespaced {
		return resources.Namespace(r.Manifest.GetNamespace()).Get(ctx, r.Manifest.GetName(), metav1.GetOptions{})
	}
	return resources.Get(ctx, r.Manifest.GetName(), metav1.GetOptions{})
}

// manifests returns the desired objects. An element is nil for a manifest that cannot be decoded,
// so that nothing is pruned for it.
func manifests(results []cluster.Result) []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, len(results))
	for i, r := range results {
		if len(r.Manifest.Object) > 0 {
			objects[i] = r.Manifest
		}
	}
	return objects
}

// policies converts the delete option of a work for the helpers. Adopted objects always stay.
//
// Deletion is always in the background. In the foreground, it would take half a minute for a kind
// that was just defined, until the garbage collector has found the kind.
func policies(option *workv1.DeleteOption) (p appliedwork.Policies) {
	if option == nil {
		return p
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		p.Default = appliedwork.PolicyOrphan
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		p.Default = appliedwork.PolicySelectivelyOrphan
		if option.SelectivelyOrphan != nil {
			for _, rule := range option.SelectivelyOrphan.OrphaningRules {
				p.Orphans = append(p.Orphans, appliedwork.OrphanRule{
					Group: rule.Group, Resource: rule.Resource, Namespace: rule.Namespace, Name: rule.Name,
				})
			}
		}
	}
	return p
}
