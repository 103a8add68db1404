// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestLogTo checks that each message is one line.
func TestLogTo(t *testing.T) {
	var out strings.Builder
	logTo(&out)("%s does not count: %q", "a\nb\x1b[2J\u2028é'世\xff.yaml", "x\ny")
	_, got, _ := strings.Cut(out.String(), " ")
	if want := "a\\nb\\x1b[2J\\u2028é'世\uFFFD.yaml does not count: \"x\\ny\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
