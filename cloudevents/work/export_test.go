// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

// Remembered is how many sources, works (those that are gone included) and places in the order of the gone an
// agent keeps.
func Remembered(a *Agent) (sources, works, places int) {
	a.store.Lock()
	defer a.store.Unlock()
	for _, s := range a.sources {
		works += len(s.works)
	}
	return len(a.sources), works, len(a.buried)
}
