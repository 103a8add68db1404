// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// WaitGone waits, by watching, until no object that the AppliedWork has in its status, or in its inventory where that still
// exists, is there with its owner reference, and then, if the AppliedWork is being deleted, until it is gone, or until ctx
// ends. That an AppliedWork is gone does not prove that its objects are, as Kubernetes' collector deletes them after it: give
// the one that was read before. The error is that of ctx, a [*TypeNotServedError], or the API server's.
func (c *Collector) WaitGone(ctx context.Context, work *v1alpha1.AppliedWork) error {
	if err := checkWork(work); err != nil {
		return err
	}
	entries := work.Status.AppliedResources
	inv, err := c.tracker.load(ctx, work)
	switch {
	case err == nil:
		entries = append(inv.entries(), entries...)
	case !errors.Is(err, ErrTerminating):
		return err
	}
	type group struct {
		mapping   mapping
		namespace string
	}
	groups := map[string]group{}
	names := map[string]map[string]bool{}
	for _, e := range entries {
		m, err := c.resolve(ctx, e.ResourceIdentifier)
		if err != nil {
			return fmt.Errorf("wait for %s to go: %w", KeyOf(e.ResourceIdentifier), err)
		}
		id := m.resource.String() + "/" + e.Namespace
		if names[id] == nil {
			groups[id], names[id] = group{m, e.Namespace}, map[string]bool{}
		}
		names[id][e.Name] = true
	}
	// One after the other: what is gone does not come back with this owner.
	owned := func(obj *unstructured.Unstructured) bool { return IsOwnedBy(obj, work.UID) }
	for id, g := range groups {
		if err := waitGone(ctx, c.resource(g.mapping, g.namespace), names[id], owned); err != nil && !IsTypeNotServed(err) {
			return fmt.Errorf("wait for %d %s of AppliedWork %s to go: %w", len(names[id]), g.mapping.resource.Resource, work.Name, err)
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

// waitGone waits until none of the objects with these names is there for which counts holds.
func waitGone(ctx context.Context, client dynamic.ResourceInterface, names map[string]bool, counts func(*unstructured.Unstructured) bool) error {
	var options metav1.ListOptions
	if len(names) == 1 {
		for name := range names {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
	}
	for {
		present := map[string]bool{}
		version, err := listAll(ctx, client, options, func(obj *unstructured.Unstructured) {
			if names[obj.GetName()] && counts(obj) {
				present[obj.GetName()] = true
			}
		})
		if err != nil || len(present) == 0 {
			return err
		}
		watching := options
		watching.ResourceVersion, watching.AllowWatchBookmarks = version, true
		w, err := client.Watch(ctx, watching)
		if err != nil {
			return err
		}
		gone := follow(ctx, w, present, counts)
		w.Stop()
		if gone {
			return nil
		}
		if err := pause(ctx, attempts); err != nil { // the watch ended: list again
			return err
		}
	}
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
