// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Covers is covers, for tests.
func Covers(fields map[string]any, value, live any) bool { return covers(fields, value, live) }

// Leave returns what is sent of a manifest for an object on the cluster, for tests.
func Leave(manifest, live *unstructured.Unstructured, options ObjectOptions, ours func(manager string) bool) (*unstructured.Unstructured, error) {
	i, err := ignoredOf(manifest, options)
	if err != nil {
		return nil, err
	}
	sent := manifest.DeepCopy()
	i.leaveTo(sent, live, ours)
	return sent, nil
}

// Answers returns how many answers of access reviews are kept, for tests.
func Answers(t *Tracker) int { return len(t.access.answers) }
