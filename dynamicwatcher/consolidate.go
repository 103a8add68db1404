// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"fmt"
	"strconv"
)

// ConsolidateOptions configures when one watch on a namespace replaces the watches on single objects in it. The limits apply
// to the watched objects of each kind in each namespace, or of each cluster-scoped kind. Selectors keep their own watches.
//
// An object that is added before the shared watch has delivered the existing objects waits for it, for a second at most.
type ConsolidateOptions struct {
	// MinObjects is the number of watched objects from which they share a watch. If fewer than half
	// as many are left, single watches replace the shared one. Defaults to 32.
	MinObjects int
	// MaxRatio is the maximum number of objects in the namespace for each watched object, because
	// the shared watch receives the changes of all of them. Above twice the ratio, single watches
	// replace the shared one. Defaults to 50.
	MaxRatio int
}

func (c *ConsolidateOptions) validate(cache bool) error {
	switch {
	case c == nil:
		return nil
	case c.MinObjects < 0 || c.MaxRatio < 0:
		return fmt.Errorf("%w: Options.Consolidate.MinObjects and MaxRatio must not be negative", ErrInvalidInput)
	case cache:
		return fmt.Errorf("%w: Options.Consolidate is for watches of metadata: with Options.EnableCache whole objects are watched, "+
			"and one watch on a namespace would bring the content of all objects in it", ErrInvalidInput)
	}
	return nil
}

func (c *ConsolidateOptions) withDefaults() *ConsolidateOptions {
	if c == nil {
		return nil
	}
	out := *c
	if out.MinObjects == 0 {
		out.MinObjects = 32
	}
	if out.MaxRatio == 0 {
		out.MaxRatio = 50
	}
	return &out
}

// enough reports whether the number of objects is large enough for a shared watch.
func (c *ConsolidateOptions) enough(watched int) bool { return watched >= c.MinObjects }

// fits reports whether a namespace is small enough for a shared watch. A size of -1 is unknown, and
// fits.
func (c *ConsolidateOptions) fits(watched int, size int64) bool {
	return size <= int64(c.MaxRatio)*int64(watched)
}

// keeps reports whether a shared watch continues. Its limits are half of those above, so that the
// watch does not start and end repeatedly.
func (c *ConsolidateOptions) keeps(watched int, size int64) bool {
	return 2*watched >= c.MinObjects && c.fits(2*watched, size)
}

// compareVersions compares resource versions as numbers, as the API server defines them. It returns
// false if one of them is not a number.
func compareVersions(a, b string) (order int, ok bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	switch {
	case err != nil:
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	}
	return 0, true
}

// covered reports whether a change at one version is part of the other. It returns false if that is
// unknown.
func covered(version, by string) bool {
	order, ok := compareVersions(version, by)
	return ok && order <= 0
}

// later returns the later of two resource versions, and the second if that is unknown.
func later(a, b string) string {
	if order, ok := compareVersions(a, b); b == "" || ok && order > 0 {
		return a
	}
	return b
}
