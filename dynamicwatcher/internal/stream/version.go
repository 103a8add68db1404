// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"strconv"
)

// CompareVersions compares resource versions as numbers, as the API server defines them. It returns
// false if one of them is not a number.
func CompareVersions(a, b string) (order int, ok bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	if err != nil {
		return 0, false
	}
	return cmp.Compare(x, y), true
}

// Covered reports whether a change at one version is known to be part of the other.
func Covered(version, by string) bool {
	order, ok := CompareVersions(version, by)
	return ok && order <= 0
}

// Later returns the later of two resource versions, and the second if that is unknown.
func Later(a, b string) string {
	if order, ok := CompareVersions(a, b); b == "" || ok && order > 0 {
		return a
	}
	return b
}
