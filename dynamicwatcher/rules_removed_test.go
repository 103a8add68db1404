// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build spokewire_rules

package dynamicwatcher_test

import (
	"flag"
	"strings"
	"testing"
)

var oneRule = flag.String("dynamicwatcher.rule", "", "a part of the names of the rules that TestRemovedRules removes")

// TestRemovedRules builds this package without one rule at a time. It fails if the test of that
// rule passes.
//
//	go test ./dynamicwatcher -tags spokewire_rules -run TestRemovedRules -v -timeout 0
func TestRemovedRules(t *testing.T) {
	for _, r := range rules {
		if strings.Contains(r.Name, *oneRule) {
			r.Test = "^" + r.Test + "$"
			t.Run(r.Name, func(t *testing.T) { r.MustFail(t, r.Build(t, "."), "-test.timeout", "1m") })
		}
	}
}
