// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"iter"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// StatusFits reports whether the schema finds no error in the JSON of a status. It may be false for
// a valid status: then [Validate] decides, and finds the errors.
func StatusFits(s *workv1.ManifestWorkStatus) bool {
	if !conditionsFit(s.Conditions) {
		return false
	}
	for i := range s.ResourceStatus.Manifests {
		m := &s.ResourceStatus.Manifests[i]
		// Conditions are required, and a nil slice is null in JSON.
		if m.Conditions == nil || !conditionsFit(m.Conditions) || !valuesFit(m.StatusFeedbacks.Values) {
			return false
		}
	}
	return true
}

// UnfitStatus returns the parts of a status that may not fit, its conditions or a manifest, each in
// its own status, and the manifest's index.
func UnfitStatus(s *workv1.ManifestWorkStatus) iter.Seq2[*workv1.ManifestWorkStatus, int] {
	return func(yield func(*workv1.ManifestWorkStatus, int) bool) {
		if !conditionsFit(s.Conditions) && !yield(&workv1.ManifestWorkStatus{Conditions: s.Conditions}, 0) {
			return
		}
		for i := range s.ResourceStatus.Manifests {
			part := &workv1.ManifestWorkStatus{}
			part.ResourceStatus.Manifests = s.ResourceStatus.Manifests[i : i+1]
			if !StatusFits(part) && !yield(part, i) {
				return
			}
		}
	}
}

// Complete reports whether data, from which a status was decoded, has every required member that
// may be empty. It may be false for complete data, and true if an unknown member has the name of a
// missing one.
func Complete(s *workv1.ManifestWorkStatus, data []byte) bool {
	conditions, silent := len(s.Conditions), countSilent(s.Conditions)
	manifests, first := s.ResourceStatus.Manifests, false
	for i := range manifests {
		m := &manifests[i]
		conditions += len(m.Conditions)
		silent += countSilent(m.Conditions)
		first = first || m.ResourceMeta.Ordinal == 0
		for j := range m.StatusFeedbacks.Values {
			if m.StatusFeedbacks.Values[j].Name == "" {
				return false
			}
		}
	}
	return (silent == 0 || countMembers(data, `"message"`) == conditions) &&
		(!first || countMembers(data, `"ordinal"`) == len(manifests))
}

// countMembers counts the members with a name, given in quotes, in JSON. A string value does not
// count: no colon follows it.
func countMembers(data []byte, name string) int {
	n := 0
	for {
		_, after, ok := bytes.Cut(data, []byte(name))
		if !ok {
			return n
		}
		data = bytes.TrimLeft(after, " \t\r\n")
		if len(data) > 0 && data[0] == ':' {
			n++
		}
	}
}

func countSilent(conditions []metav1.Condition) int {
	n := 0
	for i := range conditions {
		if conditions[i].Message == "" {
			n++
		}
	}
	return n
}

func conditionsFit(conditions []metav1.Condition) bool {
	for i := range conditions {
		c := &conditions[i]
		switch c.Status {
		case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		default:
			return false
		}
		// A zero time is null in JSON, and a year below 0 or of five digits is no date-time.
		year := c.LastTransitionTime.UTC().Year()
		if c.LastTransitionTime.IsZero() || year < 0 || year > 9999 || c.ObservedGeneration < 0 ||
			!short(c.Message, 32768) || len(c.Reason) > 1024 || !isReason(c.Reason) ||
			len(c.Type) > 316 || !isConditionType(c.Type) {
			return false
		}
		for j := range i {
			if conditions[j].Type == c.Type {
				return false
			}
		}
	}
	return true
}

func valuesFit(values []workv1.FeedbackValue) bool {
	for i := range values {
		v := &values[i].Value
		switch v.Type {
		case workv1.Integer, workv1.String, workv1.Boolean, workv1.JsonRaw:
		default:
			return false
		}
		if v.JsonRaw != nil && !short(*v.JsonRaw, 1024) {
			return false
		}
		for j := range i {
			if values[i].Name == values[j].Name {
				return false
			}
		}
	}
	return true
}

// short reports whether a text has at most limit characters.
func short(s string, limit int) bool { return len(s) <= limit || utf8.RuneCountInString(s) <= limit }
