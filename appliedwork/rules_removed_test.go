// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build spokewire_rules

package appliedwork_test

import "testing"

// TestRemovedRules builds this package without each of its rules in turn, and requires that the
// test of the rule fails.
//
//	go test ./appliedwork -tags spokewire_rules -run TestRemovedRules -v -timeout 0
func TestRemovedRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.Name, func(t *testing.T) { r.MustFail(t, r.Build(t, ".")) })
	}
}
