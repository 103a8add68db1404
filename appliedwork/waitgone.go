// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork/internal/observe"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// WaitGone watches the objects of an AppliedWork until they are gone or have lost its owner
// reference. If the AppliedWork is being deleted, WaitGone also waits for that. After a
// [Collector.Teardown] or [Collector.Release] that is not Done, it waits only for objects that are
// being deleted, because the others need the next pass.
//
// Kubernetes' garbage collector deletes the objects after the AppliedWork. If the AppliedWork is
// gone, WaitGone waits for the objects in the status of the given AppliedWork. If the status is
// empty or there are shards, it lists all kinds of the cluster to find the objects. Then a kind
// that cannot be listed is an error.
//
// The error is that of ctx, an [ErrInvalidInput], a [*TypeNotServedError], or an error of the API
// server. A kind that is not served is no error if its CRD belonged to the work and is gone.
func (c *Collector) WaitGone(ctx context.Context, work *v1alpha1.AppliedWork) error {
	if err := checkWork(work); err != nil {
		return err
	}
	wait := goneWait{
		Collector: c, work: work, entries: work.Status.AppliedResources, names: map[location]map[string]bool{},
	}
	inv, err := c.tracker.load(ctx, work)
	switch {
	case err == nil:
		wait.entries = append(inv.entries(), wait.entries...)
		wait.passes = inv.main().Annotations[v1alpha1.AnnotationTerminating] != "" && inv.main().DeletionTimestamp == nil
	case !errors.Is(err, ErrTerminating):
		return err
	case len(wait.entries) == 0 || shardsOf(work) > 0:
		if err := wait.survey(ctx); err != nil {
			return err
		}
	}
	if err := wait.group(ctx); err != nil {
		return err
	}
	// One location after the other: an object that is gone is not created again with this owner.
	for p, names := range wait.names {
		err := waitGone(ctx, c.opts.Client.Resource(p.resource).Namespace(p.namespace), names, wait.counts)
		if IsTypeNotServed(err) {
			err = wait.withoutType(ctx, schema.GroupKind{Group: p.resource.Group, Kind: p.kind}, p.resource.Resource, err)
		}
		if err != nil {
			return fmt.Errorf("wait for the deletion of %d %s of AppliedWork %s: %w",
				len(names), p.resource.Resource, work.Name, err)
		}
	}
	main := func(obj *unstructured.Unstructured) bool {
		return obj.GetUID() == work.UID && obj.GetDeletionTimestamp() != nil
	}
	if err := waitGone(ctx, c.tracker.works(), map[string]bool{work.Name: true}, main); err != nil {
		return fmt.Errorf("wait for the deletion of AppliedWork %s: %w", work.Name, err)
	}
	return nil
}

type goneWait struct {
	*Collector
	work    *v1alpha1.AppliedWork
	entries []v1alpha1.AppliedResourceMeta
	names   map[location]map[string]bool // names of the objects, by location
	passes  bool                         // a Teardown or Release is in progress
}

// location is the resource and namespace of objects.
type location struct {
	resource        schema.GroupVersionResource
	kind, namespace string
}

// survey finds the objects that the AppliedWork owns. It starts again if a kind disappears.
func (w *goneWait) survey(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		ours := func(r metav1.OwnerReference) bool { return r.UID == w.work.UID }
		owned, unread, err := w.ownedBy(ctx, defaultConcurrency, ours)
		if err != nil {
			return err
		}
		if len(unread) == 0 {
			w.entries = slices.AppendSeq(w.entries, maps.Values(owned[w.work.UID]))
			return nil
		}
		kind := slices.Min(slices.Collect(maps.Keys(unread)))
		if !IsTypeNotServed(unread[kind]) || attempt == attempts {
			return fmt.Errorf("wait for the deletion of the objects of AppliedWork %s: list %s: %w",
				w.work.Name, kind, unread[kind])
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

func (w *goneWait) counts(obj *unstructured.Unstructured) bool {
	return IsOwnedBy(obj, w.work.UID) && (!w.passes || obj.GetDeletionTimestamp() != nil)
}

func (w *goneWait) group(ctx context.Context) error {
	gone := map[schema.GroupKind]bool{}
	for _, e := range w.entries {
		gk := KeyOf(e.ResourceIdentifier).GroupKind()
		if gone[gk] {
			continue
		}
		m, err := w.resolve(ctx, e.ResourceIdentifier)
		if IsTypeNotServed(err) {
			if err = w.withoutType(ctx, gk, e.Resource, err); err == nil {
				gone[gk] = true
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("wait for the deletion of %s: %w", KeyOf(e.ResourceIdentifier), err)
		}
		p := location{m.Resource, m.Kind, ""}
		if m.Namespaced {
			p.namespace = e.Namespace
		}
		if w.names[p] == nil {
			w.names[p] = map[string]bool{}
		}
		w.names[p][e.Name] = true
	}
	return nil
}

// withoutType returns nil if a kind is not served because its CRD, which belongs to the work, is
// gone: the API server deletes all objects before the CRD.
func (w *goneWait) withoutType(ctx context.Context, gk schema.GroupKind, resource string, err error) error {
	w.kinds.Forget(gk.Group)
	notServed := &TypeNotServedError{Kind: gk, Err: err}
	crd := resource + "." + gk.Group
	if !slices.ContainsFunc(w.entries, func(e v1alpha1.AppliedResourceMeta) bool {
		return e.Group == crdKind.Group && e.Resource == v1alpha1.CRDResource.Resource && e.Name == crd
	}) {
		return notServed
	}
	_, err = w.opts.Client.Resource(v1alpha1.CRDResource).Get(ctx, crd, metav1.GetOptions{})
	switch {
	case err == nil:
		return notServed
	case apierrors.IsNotFound(err) && !IsTypeNotServed(err):
		return nil
	}
	return err
}

// waitGone waits until each object with one of the names is gone or counts returns false for it.
func waitGone(
	ctx context.Context, client dynamic.ResourceInterface, names map[string]bool,
	counts func(*unstructured.Unstructured) bool,
) error {
	present := maps.Clone(names)
	see := func(name string, obj *unstructured.Unstructured) {
		if obj != nil && counts(obj) {
			present[name] = true
		} else {
			delete(present, name)
		}
	}
	gone := func() bool { return len(present) == 0 }
	for {
		err := observe.Objects(ctx, client, names, see, gone)
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		if gone() {
			return nil
		}
		if err := pause(ctx, attempts); err != nil { // list again: the watch ended, or the list has expired
			return err
		}
	}
}
