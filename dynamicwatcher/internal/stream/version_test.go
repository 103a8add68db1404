// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"testing"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for _, test := range []struct {
		a, b    string
		order   int
		known   bool
		covered bool
		later   string
	}{
		{"9", "10", -1, true, true, "10"},
		{"10", "9", 1, true, false, "10"},
		{"7", "7", 0, true, true, "7"},
		{"7", "", 0, false, false, "7"},
		{"", "7", 0, false, false, "7"},
		{"x", "7", 0, false, false, "7"},
		{"7", "x", 0, false, false, "x"},
	} {
		order, known := stream.CompareVersions(test.a, test.b)
		if order != test.order || known != test.known {
			t.Errorf("CompareVersions(%q, %q) = %d, %t", test.a, test.b, order, known)
		}
		if got := stream.Covered(test.a, test.b); got != test.covered {
			t.Errorf("Covered(%q, %q) = %t", test.a, test.b, got)
		}
		if got := stream.Later(test.a, test.b); got != test.later {
			t.Errorf("Later(%q, %q) = %q, want %q", test.a, test.b, got, test.later)
		}
	}
}
