// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandtest is for the tests of command lines.
package commandtest

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

// Usage checks that what --help shows has a line for each flag, and fits a terminal.
func Usage(t *testing.T, usage string, flags ...string) {
	t.Helper()
	lines := strings.Split(usage, "\n")
	for _, name := range append(flags, "help") {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  --"+name+" ") }) {
			t.Errorf("--%s is missing", name)
		}
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("too long for a terminal: %s", line)
		}
	}
}

// Refuses checks that each of the command lines, of words with one space between them, is an error that says what it is
// mapped to, and that a request for help is [flag.ErrHelp].
func Refuses[O any](t *testing.T, parse func([]string) (O, error), lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		if _, err := parse(strings.Split(line, " ")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", line, err, want)
		}
	}
	for _, help := range []string{"-h", "--help"} {
		if _, err := parse([]string{help}); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v; want flag.ErrHelp", help, err)
		}
	}
}
