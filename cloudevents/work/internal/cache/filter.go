// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// The two fields that field selectors of any custom resource support.
const (
	FieldName      = "metadata.name"
	FieldNamespace = "metadata.namespace"
)

// place selects a namespace, a name, or both; empty fields select all. It is the key of an index.
type place struct{ namespace, name string }

func placeOf(obj *workv1.ManifestWork) place { return place{obj.Namespace, obj.Name} }

// has reports whether an object is in the place.
func (p place) has(obj *workv1.ManifestWork) bool {
	return (p.namespace == "" || p.namespace == obj.Namespace) && (p.name == "" || p.name == obj.Name)
}

// Filter selects the objects of a list or watch.
type Filter struct {
	// Namespace and Name select one namespace and one name; empty for all. With both, the object is
	// looked up directly.
	Namespace, Name string
	// Labels and Fields are selectors; nil selects everything. Fields are FieldName and
	// FieldNamespace.
	Labels labels.Selector
	Fields fields.Selector
}

// Select adds a selector of fields. If it requires one name or namespace, Select sets Name or
// Namespace.
func (f *Filter) Select(selector fields.Selector) {
	for _, r := range selector.Requirements() {
		of := &f.Name
		if r.Field == FieldNamespace {
			of = &f.Namespace
		}
		exact := r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
		if exact && r.Value != "" && (*of == "" || *of == r.Value) {
			*of = r.Value
			continue
		}
		f.Fields = selector // it requires more, or contradicts itself
	}
}

func (f *Filter) place() place { return place{f.Namespace, f.Name} }

// Matches reports whether the filter selects an object.
func (f *Filter) Matches(obj *workv1.ManifestWork) bool {
	return f.place().has(obj) &&
		(f.Labels == nil || f.Labels.Matches(labels.Set(obj.Labels))) &&
		(f.Fields == nil || f.Fields.Matches((*objectFields)(obj)))
}

// objectFields has the selectable fields of an object.
type objectFields workv1.ManifestWork

// Has implements [fields.Fields].
func (o *objectFields) Has(field string) bool { return field == FieldName || field == FieldNamespace }

// Get implements [fields.Fields].
func (o *objectFields) Get(field string) string {
	if field == FieldName {
		return o.Name
	}
	return o.Namespace
}

// translate converts a write to the event of a watch with this filter. An object with labels that
// begin to match is added, and an object that no longer matches is deleted. cost is the memory that
// the watch keeps until it has delivered the event, in bytes.
func (f *Filter) translate(e *event) (out watch.Event, cost int, ok bool) {
	if e.kind == watch.Bookmark {
		return watch.Event{Type: watch.Bookmark, Object: e.object}, eventBytes + objectBytes, true
	}
	if f.Labels == nil && f.Fields == nil {
		return watch.Event{Type: e.kind, Object: e.object}, e.cost, true
	}
	is := e.kind != watch.Deleted && f.Matches(e.object)
	was := e.previous != nil && f.Matches(e.previous)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: e.object}, e.cost, true
	case is:
		return watch.Event{Type: watch.Added, Object: e.object}, e.cost, true
	case was: // later writes of the object are neither delivered nor counted
		last := *e.previous
		last.ResourceVersion = e.object.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: &last}, eventBytes + unshared(&last, &nothing) + objectBytes, true
	}
	return watch.Event{}, 0, false
}
