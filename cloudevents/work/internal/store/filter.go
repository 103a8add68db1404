// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Filter says which objects a list or watch is about.
type Filter struct {
	// Namespace limits to one namespace; empty for all.
	Namespace string
	// Labels and Fields are selectors; nil selects everything. Fields are metadata.name and
	// metadata.namespace, the two that any custom resource has.
	Labels labels.Selector
	Fields fields.Selector
}

// Matches reports whether the filter takes an object.
func (f *Filter) Matches(obj *workv1.ManifestWork) bool {
	if f.Namespace != "" && f.Namespace != obj.Namespace {
		return false
	}
	if f.Labels != nil && !f.Labels.Matches(labels.Set(obj.Labels)) {
		return false
	}
	return f.Fields == nil || f.Fields.Matches(fields.Set{
		"metadata.name":      obj.Name,
		"metadata.namespace": obj.Namespace,
	})
}

// translate turns a write into what a watch with this filter sees of it: an object whose labels begin to
// match is added, one that no longer matches is deleted.
func (f *Filter) translate(e event) (watch.Event, bool) {
	if e.kind == watch.Bookmark {
		return watch.Event{Type: watch.Bookmark, Object: e.object}, true
	}
	if f.Labels == nil && f.Fields == nil {
		return watch.Event{Type: e.kind, Object: e.object}, true
	}
	is := e.kind != watch.Deleted && f.Matches(e.object)
	was := e.previous != nil && f.Matches(e.previous)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: e.object}, true
	case is:
		return watch.Event{Type: watch.Added, Object: e.object}, true
	case was:
		last := *e.previous
		last.ResourceVersion = e.object.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: &last}, true
	}
	return watch.Event{}, false
}
