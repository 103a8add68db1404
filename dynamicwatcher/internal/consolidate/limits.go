// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consolidate

// Limits are the limits of a shared watch: those of dynamicwatcher.ConsolidateOptions.
type Limits struct {
	MinObjects int
	MaxRatio   int
}

// Enough reports whether a shared watch is worthwhile for a number of watched objects.
func (l Limits) Enough(watched int) bool { return watched >= l.MinObjects }

// Fits reports whether a namespace is small enough for a shared watch. An unknown size, -1, fits.
func (l Limits) Fits(watched int, size int64) bool {
	return size <= int64(l.MaxRatio)*int64(watched)
}

// Keeps reports whether a shared watch continues. Its limits are half of those above, so that the
// watch does not start and end repeatedly.
func (l Limits) Keeps(watched int, size int64) bool {
	return 2*watched >= l.MinObjects && l.Fits(2*watched, size)
}
