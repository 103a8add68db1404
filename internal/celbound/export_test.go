// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package celbound

import (
	"maps"
	"slices"
)

// Unbounded returns the functions without an entry in work, which take no steps.
func (e *Env) Unbounded() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.Functions())) {
		if _, ok := work[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}
