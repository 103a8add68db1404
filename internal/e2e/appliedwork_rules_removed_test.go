// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build spokewire_rules

package e2e_test

import (
	"cmp"
	"flag"
	"regexp"
	"testing"
)

var appliedWorkRuleSeeds = flag.String("appliedwork.rule-seeds", "60",
	"how many seeds TestAppliedWorkRemovedRules gives a campaign to fail in")

var (
	firstFailure = regexp.MustCompile(
		`appliedwork_\w+_test\.go:\d+: .*(seed \d+[:,]|agent/|is there|left|lacks|is owned by).*`)
	firstLine = regexp.MustCompile(`appliedwork_\w+_test\.go:\d+: .*`)
)

// TestAppliedWorkRemovedRules builds package appliedwork without a rule, and requires that a
// campaign fails.
//
//	go test -C internal/e2e -tags spokewire_rules -run TestAppliedWorkRemovedRules -v -timeout 0 .
func TestAppliedWorkRemovedRules(t *testing.T) {
	for _, r := range appliedWorkRules {
		t.Run(r.Name, func(t *testing.T) {
			out := r.MustFail(t, r.Build(t, appliedWork), "-appliedwork.seeds", *appliedWorkRuleSeeds)
			t.Logf("fails: %.300s", cmp.Or(firstFailure.FindString(out), firstLine.FindString(out)))
		})
	}
}
