// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package aggregate

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Later returns the later of two times. Nil is earlier than any time.
func Later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b
	}
	return a
}

// Generations identify the object of a status.
type Generations struct {
	Generation                 int64 `json:"generation,omitempty"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration,omitempty"`
	ObservedGeneration         int64 `json:"observedGeneration,omitempty"`
}

// Observed returns generation if each cluster has the newest object and has observed it, and otherwise
// an earlier one. A cluster without a report has not observed the newest object.
func Observed(generation, before int64, clusters int, reported []Generations) int64 {
	current := 0
	for _, g := range reported {
		// A greater generation belongs to an earlier incarnation of the name.
		if g.ResourceTemplateGeneration == generation && g.ObservedGeneration >= g.Generation {
			current++
		}
	}
	switch {
	case current == clusters:
		return generation
	case len(reported) < clusters:
		return min(before, max(0, generation-1))
	}
	return before
}

// ServerFields returns the fields that the API server sets, or that only the control plane uses.
// Prune removes them.
func ServerFields() [][]string {
	return [][]string{
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
		{"metadata", "generation"},
		{"metadata", "selfLink"},
		{"metadata", "creationTimestamp"},
		{"metadata", "deletionTimestamp"},
		{"metadata", "deletionGracePeriodSeconds"},
		{"metadata", "managedFields"},
		{"metadata", "ownerReferences"},
		{"metadata", "finalizers"},
		{"status"},
	}
}
