// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Rough sizes in memory. Strings of a fixed vocabulary and small pointers are part of the
// constants.
const (
	objectBytes    = int(unsafe.Sizeof(workv1.ManifestWork{}))
	pairBytes      = 64  // of a label or an annotation, without its text
	itemBytes      = 128 // of an owner, a finalizer or a rule, without its text
	textBytes      = int(unsafe.Sizeof(""))
	conditionBytes = 160 // of a condition, a result or a feedback, without its text
	manifestBytes  = int(unsafe.Sizeof(workv1.Manifest{}))
	configBytes    = int(unsafe.Sizeof(workv1.ManifestConfigOption{})) + itemBytes
	resultBytes    = 256
	feedbackBytes  = 128
)

// nothing shares no memory with any object.
var nothing workv1.ManifestWork

// SpecSize returns roughly the memory of a spec and its metadata in bytes. It counts all parts that
// a peer can choose, without encoding them.
func SpecSize(m *metav1.ObjectMeta, s *workv1.ManifestWorkSpec) int {
	return objectBytes + MetaSize(m) + unsharedSpec(s, &nothing.Spec)
}

// MetaSize is SpecSize for metadata alone.
func MetaSize(m *metav1.ObjectMeta) int { return unsharedMeta(m, &nothing.ObjectMeta) }

// StatusSize is SpecSize for a status.
func StatusSize(s *workv1.ManifestWorkStatus) int { return unsharedStatus(s, &nothing.Status) }

// unshared returns roughly the memory of obj that next does not share, in bytes. Snapshots of one
// object share the parts that a write does not change: after a write of the status both have the
// same manifests.
func unshared(obj, next *workv1.ManifestWork) int {
	return objectBytes + unsharedMeta(&obj.ObjectMeta, &next.ObjectMeta) +
		unsharedSpec(&obj.Spec, &next.Spec) + unsharedStatus(&obj.Status, &next.Status)
}

func unsharedMeta(m, next *metav1.ObjectMeta) int {
	size := 0
	for _, of := range [...][2]map[string]string{{m.Labels, next.Labels}, {m.Annotations, next.Annotations}} {
		if !sameMap(of[0], of[1]) {
			for k, v := range of[0] {
				size += pairBytes + len(k) + len(v)
			}
		}
	}
	if !sameSlice(m.OwnerReferences, next.OwnerReferences) {
		for i := range m.OwnerReferences {
			o := &m.OwnerReferences[i]
			size += 2*itemBytes + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
		}
	}
	if !sameSlice(m.Finalizers, next.Finalizers) {
		for _, finalizer := range m.Finalizers {
			size += itemBytes + len(finalizer)
		}
	}
	if !sameSlice(m.ManagedFields, next.ManagedFields) {
		for i := range m.ManagedFields {
			size += 2 * itemBytes
			if fields := m.ManagedFields[i].FieldsV1; fields != nil {
				size += len(fields.GetRawBytes())
			}
		}
	}
	return size
}

func unsharedSpec(s, next *workv1.ManifestWorkSpec) int {
	size := 0
	if others := next.Workload.Manifests; !sameSlice(s.Workload.Manifests, others) {
		for i := range s.Workload.Manifests {
			size += manifestBytes
			if raw := s.Workload.Manifests[i].Raw; i >= len(others) || !sameSlice(raw, others[i].Raw) {
				size += len(raw)
			}
		}
	}
	if !sameSlice(s.ManifestConfigs, next.ManifestConfigs) {
		for i := range s.ManifestConfigs {
			size += configSize(&s.ManifestConfigs[i])
		}
	}
	if o := s.DeleteOption; o != nil && o != next.DeleteOption && o.SelectivelyOrphan != nil {
		for _, r := range o.SelectivelyOrphan.OrphaningRules {
			size += itemBytes + len(r.Group) + len(r.Resource) + len(r.Namespace) + len(r.Name)
		}
	}
	if e := s.Executor; e != nil && e != next.Executor {
		size += itemBytes + len(e.Subject.Type)
		if account := e.Subject.ServiceAccount; account != nil {
			size += itemBytes + len(account.Namespace) + len(account.Name)
		}
	}
	return size
}

func configSize(c *workv1.ManifestConfigOption) int {
	r := &c.ResourceIdentifier
	size := configBytes + len(r.Group) + len(r.Resource) + len(r.Namespace) + len(r.Name) + len(c.FeedbackScrapeType)
	for i := range c.FeedbackRules {
		size += itemBytes + len(c.FeedbackRules[i].Type)
		for _, p := range c.FeedbackRules[i].JsonPaths {
			size += itemBytes + len(p.Name) + len(p.Version) + len(p.Path)
		}
	}
	for i := range c.ConditionRules {
		rule := &c.ConditionRules[i]
		size += itemBytes + len(rule.Condition) + len(rule.Type) + len(rule.Message) + len(rule.MessageExpression) +
			textsSize(rule.CelExpressions)
	}
	if u := c.UpdateStrategy; u != nil && u.ServerSideApply != nil {
		size += itemBytes + len(u.Type) + len(u.ServerSideApply.FieldManager)
		for i := range u.ServerSideApply.IgnoreFields {
			f := &u.ServerSideApply.IgnoreFields[i]
			size += itemBytes + len(f.Condition) + textsSize(f.JSONPaths)
		}
	} else if u != nil {
		size += itemBytes + len(u.Type)
	}
	return size
}

func textsSize(texts []string) (size int) {
	for _, text := range texts {
		size += textBytes + len(text)
	}
	return size
}

func unsharedStatus(s, next *workv1.ManifestWorkStatus) int {
	size := 0
	if !sameSlice(s.Conditions, next.Conditions) {
		size += conditionsSize(s.Conditions)
	}
	if sameSlice(s.ResourceStatus.Manifests, next.ResourceStatus.Manifests) {
		return size
	}
	for i := range s.ResourceStatus.Manifests {
		m := &s.ResourceStatus.Manifests[i]
		r := &m.ResourceMeta
		size += resultBytes + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Resource) + len(r.Name) + len(r.Namespace)
		size += conditionsSize(m.Conditions)
		for j := range m.StatusFeedbacks.Values {
			v := &m.StatusFeedbacks.Values[j]
			size += feedbackBytes + len(v.Name) + len(v.Value.Type)
			for _, text := range [...]*string{v.Value.String, v.Value.JsonRaw} {
				if text != nil {
					size += textBytes + len(*text)
				}
			}
		}
	}
	return size
}

func conditionsSize(conditions []metav1.Condition) int {
	size := len(conditions) * conditionBytes
	for i := range conditions {
		c := &conditions[i]
		size += len(c.Type) + len(c.Status) + len(c.Reason) + len(c.Message)
	}
	return size
}

// sameSlice reports whether two slices share their memory, or are both empty.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sameMap reports whether two maps are the same map, or both empty.
func sameMap(a, b map[string]string) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer())
}
