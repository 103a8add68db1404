// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

// Indexed returns the number of AppliedWorks and hashes in the index, for tests.
func Indexed(t *Tracker) (works, hashes int) {
	for _, w := range t.opts.Index.works {
		works, hashes = works+1, hashes+len(w.hashes)
	}
	return works, hashes
}

// LimitIndex limits the index to some AppliedWorks without entries, for tests.
func LimitIndex(t *Tracker, works int) { t.opts.Index.limit = works * indexedWork }
