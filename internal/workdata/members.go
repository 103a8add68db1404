// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Member is a member of an object. At returns the pointer to its value. The type of the pointer
// selects how the value is read.
type Member[T any] struct {
	Name string
	At   func(*T) any
}

// Object has the members of an object.
type Object[T any] []Member[T]

// The objects of a status. A bundle has the list of manifests in place of resourceStatus.
var (
	status = Object[workv1.ManifestWorkStatus]{
		{"conditions", func(s *workv1.ManifestWorkStatus) any { return &s.Conditions }},
		{"resourceStatus", func(s *workv1.ManifestWorkStatus) any { return &s.ResourceStatus }},
	}
	bundle = Object[workv1.ManifestWorkStatus]{
		{"conditions", func(s *workv1.ManifestWorkStatus) any { return &s.Conditions }},
		{"resourceStatus", func(s *workv1.ManifestWorkStatus) any { return &s.ResourceStatus.Manifests }},
	}
	resources = Object[workv1.ManifestResourceStatus]{
		{"manifestConditions", func(s *workv1.ManifestResourceStatus) any { return &s.Manifests }},
	}
	condition = Object[metav1.Condition]{
		{"type", func(c *metav1.Condition) any { return &c.Type }},
		{"status", func(c *metav1.Condition) any { return (*string)(&c.Status) }},
		{"observedGeneration", func(c *metav1.Condition) any { return &c.ObservedGeneration }},
		{"lastTransitionTime", func(c *metav1.Condition) any { return &c.LastTransitionTime }},
		{"reason", func(c *metav1.Condition) any { return &c.Reason }},
		{"message", func(c *metav1.Condition) any { return &c.Message }},
	}
	manifest = Object[workv1.ManifestCondition]{
		{"resourceMeta", func(m *workv1.ManifestCondition) any { return &m.ResourceMeta }},
		{"statusFeedback", func(m *workv1.ManifestCondition) any { return &m.StatusFeedbacks }},
		{"conditions", func(m *workv1.ManifestCondition) any { return &m.Conditions }},
	}
	resource = Object[workv1.ManifestResourceMeta]{
		{"ordinal", func(r *workv1.ManifestResourceMeta) any { return &r.Ordinal }},
		{"group", func(r *workv1.ManifestResourceMeta) any { return &r.Group }},
		{"version", func(r *workv1.ManifestResourceMeta) any { return &r.Version }},
		{"kind", func(r *workv1.ManifestResourceMeta) any { return &r.Kind }},
		{"resource", func(r *workv1.ManifestResourceMeta) any { return &r.Resource }},
		{"name", func(r *workv1.ManifestResourceMeta) any { return &r.Name }},
		{"namespace", func(r *workv1.ManifestResourceMeta) any { return &r.Namespace }},
	}
	feedback = Object[workv1.StatusFeedbackResult]{
		{"values", func(f *workv1.StatusFeedbackResult) any { return &f.Values }},
	}
	value = Object[workv1.FeedbackValue]{
		{"name", func(v *workv1.FeedbackValue) any { return &v.Name }},
		{"fieldValue", func(v *workv1.FeedbackValue) any { return &v.Value }},
	}
	fieldValue = Object[workv1.FieldValue]{
		{"type", func(v *workv1.FieldValue) any { return (*string)(&v.Type) }},
		{"integer", func(v *workv1.FieldValue) any { return &v.Integer }},
		{"string", func(v *workv1.FieldValue) any { return &v.String }},
		{"boolean", func(v *workv1.FieldValue) any { return &v.Boolean }},
		{"jsonRaw", func(v *workv1.FieldValue) any { return &v.JsonRaw }},
	}
)

// known reports whether the objects above have all fields of the API. Fields of a later API must be
// sent too.
func known() bool {
	return complete(status) && complete(condition) && complete(resources) && complete(manifest) && complete(resource) &&
		complete(feedback) && complete(value) && complete(fieldValue)
}

func complete[T any](o Object[T]) bool { return reflect.TypeFor[T]().NumField() == len(o) }
