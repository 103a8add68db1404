// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// Verbs are the verbs of a clientset in one namespace, for a server that decodes, merges and tracks
// managedFields itself. The objects that Verbs returns are snapshots: callers must not change them.
type Verbs struct{ works *works }

// VerbsOf returns the verbs of a clientset from [New].
func VerbsOf(c workclientset.Interface, namespace string) (Verbs, bool) {
	own, ok := c.(*clientset)
	if !ok {
		return Verbs{}, false
	}
	return Verbs{&works{backend: own.v1.backend, namespace: namespace}}, true
}

// Supports returns an error if objects do not have the verb.
func (v Verbs) Supports(verb string, sub Subresource) error {
	return v.works.backend.Supports(verb, sub)
}

// Stopped reports whether the source or the agent has stopped.
func (v Verbs) Stopped() bool { return v.works.backend.Stopped() }

// Synced reports whether the initial sync is complete, so reads do not wait.
func (v Verbs) Synced() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return v.works.backend.WaitSynced(ctx) == nil
}

// Get returns an object, or NotFound.
func (v Verbs) Get(ctx context.Context, name string, opts metav1.GetOptions) (*workv1.ManifestWork, error) {
	return v.works.get(ctx, name, opts)
}

// List returns the objects that the options select, and the metadata of the list.
func (v Verbs) List(ctx context.Context, opts metav1.ListOptions) ([]*workv1.ManifestWork, metav1.ListMeta, error) {
	return v.works.page(ctx, opts)
}

// Watch begins a watch.
func (v Verbs) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return v.works.Watch(ctx, opts)
}

// Create is the creation of an object.
type Create struct {
	DryRun bool
	// Apply reports whether a server-side apply creates the object: it may have a version.
	Apply bool
	// Check may refuse the complete object, which it must not change. It may be nil.
	Check func(*workv1.ManifestWork) error
}

// Create adds an object.
func (v Verbs) Create(ctx context.Context, obj *unstructured.Unstructured, c Create) (*workv1.ManifestWork, error) {
	w := v.works
	if err := w.begin(ctx, "create", whole); err != nil {
		return nil, err
	}
	next, invalid, err := adopt(obj, nil, whole, true)
	if err != nil {
		return nil, err
	}
	if c.Apply {
		if _, err := parseVersion(next.ResourceVersion); err != nil {
			return nil, InternalError("%v", err)
		}
		next.ResourceVersion = ""
	}
	tidy(&next.ObjectMeta)
	if err := w.place(next); err != nil {
		return nil, err
	}
	if errs := typeErrors(next.TypeMeta); len(errs) > 0 {
		return nil, newInvalid(next.GroupVersionKind().GroupKind(), next.Name, errs)
	}
	if len(invalid) > 0 {
		return nil, ValidateNew(next, invalid)
	}
	return w.backend.Create(ctx, next, c)
}

// Update is one write of an existing object.
type Update struct {
	Subresource Subresource
	DryRun      bool
	// Patch reports whether the write is a patch: it has no preconditions. Apply reports whether it
	// is a server-side apply.
	Patch, Apply bool
	// Next returns the next state from the live one. It is called again after a concurrent write.
	Next func(live *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Check may refuse the complete next state, which it must not change. It may be nil.
	Check func(next, live *workv1.ManifestWork) error
}

// Update changes an object, or returns NotFound.
func (v Verbs) Update(ctx context.Context, name string, u Update) (*workv1.ManifestWork, error) {
	w, verb := v.works, "update"
	if u.Patch {
		verb = "patch"
	}
	if err := w.begin(ctx, verb, u.Subresource); err != nil {
		return nil, err
	}
	creates := u.Subresource == whole && w.backend.Supports("create", whole) == nil
	o := changeOptions{
		sub: u.Subresource, dryRun: u.DryRun, patched: u.Patch, applied: u.Apply, managed: true, check: u.Check,
	}
	return w.commit(ctx, name, o, func(current *workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
		live, err := crd.Unstructured(current)
		if err != nil {
			return nil, nil, apierrors.NewInternalError(err)
		}
		obj, err := u.Next(live)
		if err != nil {
			return nil, nil, err
		}
		changes := creates || !apiequality.Semantic.DeepEqual(obj.Object["spec"], live.Object["spec"])
		next, invalid, err := adopt(obj, current, u.Subresource, changes)
		if err == nil && u.Patch && !u.Apply {
			err = w.checkPatched(current, next, o, invalid)
		}
		return next, invalid, err
	})
}

// typeErrors returns the errors of an object that claims to be of another type.
func typeErrors(t metav1.TypeMeta) (errs field.ErrorList) {
	if t.Kind != ownType.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), t.Kind, "must be "+ownType.Kind))
	}
	if t.APIVersion != ownType.APIVersion {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), t.APIVersion, "must be "+ownType.APIVersion))
	}
	return errs
}

// Delete begins the deletion of an object and returns its last state.
func (v Verbs) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) (*workv1.ManifestWork, error) {
	return v.works.remove(ctx, name, opts)
}
