// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build spokewire_rules

package work_test

import (
	"flag"
	"regexp"
	"strings"
	"testing"
)

var (
	ruleSeeds = flag.String("work.rule-seeds", "20000", "how many seeds TestRemovedRules gives a simulation to fail in")
	oneRule   = flag.String("work.rule", "", "a part of the names of the rules that TestRemovedRules removes")
)

// TestRemovedRules builds the simulation, or the package of the rule's own test, without each rule
// of the protocol in turn. It checks that the simulation or the test fails.
//
//	go test ./cloudevents/work -tags spokewire_rules -run TestRemovedRules -v -timeout 0
func TestRemovedRules(t *testing.T) {
	for _, r := range rules {
		if !strings.Contains(r.Name, *oneRule) {
			continue
		}
		if r.Test == "" {
			r.Test, r.Package = "TestSimulation", simulation
		}
		var args []string
		if r.Package == simulation {
			args = []string{"-work.seeds", *ruleSeeds}
		}
		r.Test = "^" + r.Test + "$"
		t.Run(r.Name, func(t *testing.T) {
			out := r.MustFail(t, r.Build(t, "."), args...)
			if failed := failedSeed.FindStringSubmatch(out); failed != nil {
				t.Logf("fails at seed %s: %.300s", failed[1], firstError.FindString(out))
			}
		})
	}
}

var (
	failedSeed = regexp.MustCompile(`-work\.seed (\d+)`)
	firstError = regexp.MustCompile(`\w+_test\.go:\d+: .*`)
)
