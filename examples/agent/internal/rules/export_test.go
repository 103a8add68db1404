// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
)

// Unbounded returns the functions that take no steps.
func (e *Evaluator) Unbounded() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.messages.Functions())) {
		if _, ok := work[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}
