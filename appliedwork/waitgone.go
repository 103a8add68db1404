// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// WaitGone waits, by watching, until no object that the AppliedWork has in its status, or in its inventory where that still
// exists, is there with its owner reference, and then, if the AppliedWork is being deleted, until it is gone, or until ctx
// ends. After a [Collector.Teardown] or [Collector.Release] that is not done it waits for what is being deleted only, as the
// others wait for the next pass. That an AppliedWork is gone does not prove that its objects are, as Kubernetes' collector
// deletes them after it: give the one that was read before. The error is that of ctx, an [ErrInvalidInput], a
// [*TypeNotServedError] for a kind of which nothing can be known, unless its CRD was of the work too and is gone, or the API
// server's.
func (c *Collector) WaitGone(ctx context.Context, work *v1alpha1.AppliedWork) error {
	if err := checkWork(work); err != nil {
		return err
	}
	wait := goneWait{Collector: c, work: work, entries: work.Status.AppliedResources, names: map[location]map[string]bool{}}
	inv, err := c.tracker.load(ctx, work)
	switch {
	case err == nil:
		wait.entries = append(inv.entries(), wait.entries...)
		wait.passes = inv.main().Annotations[v1alpha1.AnnotationTerminating] != "" && inv.main().DeletionTimestamp == nil
	case !errors.Is(err, ErrTerminating):
		return err
	}
	if err := wait.group(ctx); err != nil {
		return err
	}
	// One after the other: what is gone does not come back with this owner.
	for p, names := range wait.names {
		err := waitGone(ctx, c.opts.Client.Resource(p.resource).Namespace(p.namespace), names, wait.counts)
		if IsTypeNotServed(err) {
			err = wait.withoutType(ctx, schema.GroupKind{Group: p.resource.Group, Kind: p.kind}, p.resource.Resource, err)
		}
		if err != nil {
			return fmt.Errorf("wait for %d %s of AppliedWork %s to go: %w", len(names), p.resource.Resource, work.Name, err)
		}
	}
	main := func(obj *unstructured.Unstructured) bool {
		return obj.GetUID() == work.UID && obj.GetDeletionTimestamp() != nil
	}
	if err := waitGone(ctx, c.tracker.works(), map[string]bool{work.Name: true}, main); err != nil {
		return fmt.Errorf("wait for AppliedWork %s to go: %w", work.Name, err)
	}
	return nil
}

// goneWait is one call of WaitGone.
type goneWait struct {
	*Collector
	work    *v1alpha1.AppliedWork
	entries []v1alpha1.AppliedResourceMeta
	names   map[location]map[string]bool // of the objects, by where they are
	passes  bool                         // whether the AppliedWork ends pass by pass
}

// location is where objects are.
type location struct {
	resource        schema.GroupVersionResource
	kind, namespace string
}

func (w *goneWait) counts(obj *unstructured.Unstructured) bool {
	return IsOwnedBy(obj, w.work.UID) && (!w.passes || obj.GetDeletionTimestamp() != nil)
}

// group finds out where the objects are.
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
			return fmt.Errorf("wait for %s to go: %w", KeyOf(e.ResourceIdentifier), err)
		}
		p := location{m.resource, m.kind, ""}
		if m.namespaced {
			p.namespace = e.Namespace
		}
		if w.names[p] == nil {
			w.names[p] = map[string]bool{}
		}
		w.names[p][e.Name] = true
	}
	return nil
}

// withoutType returns nil when a kind is not served because its CRD is gone, which takes all objects with it before it goes.
// Who does not know that a kind has a CRD knows nothing of its objects.
func (w *goneWait) withoutType(ctx context.Context, gk schema.GroupKind, resource string, err error) error {
	w.kinds.forget(ctx, gk.Group)
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

// waitGone waits until none of the objects with these names is there for which counts holds.
func waitGone(ctx context.Context, client dynamic.ResourceInterface, names map[string]bool, counts func(*unstructured.Unstructured) bool) error {
	var options metav1.ListOptions
	if len(names) == 1 {
		for name := range names {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
	}
	for {
		gone, err := watchGone(ctx, client, options, names, counts)
		if gone || err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		if err := pause(ctx, attempts); err != nil { // the watch ended, or what was listed is too old: list again
			return err
		}
	}
}

// watchGone lists and watches, and returns true when all are gone, or false when the watch has ended.
func watchGone(ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions, names map[string]bool, counts func(*unstructured.Unstructured) bool) (bool, error) {
	present := map[string]bool{}
	version, err := listAll(ctx, client, options, func(obj *unstructured.Unstructured) {
		if names[obj.GetName()] && counts(obj) {
			present[obj.GetName()] = true
		}
	})
	if err != nil || len(present) == 0 {
		return err == nil, err
	}
	options.ResourceVersion, options.AllowWatchBookmarks = version, true
	w, err := client.Watch(ctx, options)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	return follow(ctx, w, present, counts), nil
}

func listAll(ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions, visit func(*unstructured.Unstructured)) (version string, err error) {
	options.Limit = pageSize
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		version = page.GetResourceVersion()
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return version, nil
		}
	}
}

// follow reads a watch until all that was present is gone, and returns true, or until the watch or ctx ends.
func follow(ctx context.Context, w watch.Interface, present map[string]bool, counts func(*unstructured.Unstructured) bool) bool {
	for len(present) > 0 {
		select {
		case <-ctx.Done():
			return false
		case event, ok := <-w.ResultChan():
			obj, is := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				return false
			}
			if is && event.Type != watch.Bookmark && (event.Type == watch.Deleted || !counts(obj)) {
				delete(present, obj.GetName())
			}
		}
	}
	return true
}
