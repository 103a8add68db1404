// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build spokewire_rules

package work_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	ruleSeeds = flag.Uint64("work.rule-seeds", 20_000, "how many seeds TestRemovedRules gives a simulation to fail in")
	oneRule   = flag.String("work.rule", "", "a part of the names of the rules that TestRemovedRules removes")
)

// TestRemovedRules builds this package without one rule of the protocol after the other (go build -overlay), and demands
// that its simulation fails.
//
//	go test ./cloudevents/work -tags spokewire_rules -run TestRemovedRules -v -timeout 0
func TestRemovedRules(t *testing.T) {
	for _, r := range rules {
		if !strings.Contains(r.name, *oneRule) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			binary := r.build(t)
			test := r.test
			if test == "" {
				test = "TestSimulation"
			}
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^"+test+"$", "-test.timeout", "0",
				"-work.seeds", strconv.FormatUint(*ruleSeeds, 10))
			out, err := run.CombinedOutput()
			failed := failedSeed.FindSubmatch(out)
			switch {
			case err == nil:
				t.Errorf("%s does not fail", test)
			case strings.Contains(string(out), "panic:"):
				t.Errorf("%s panics:\n%.3000s", test, out)
			case failed != nil:
				t.Logf("fails at seed %s: %.300s", failed[1], firstError.Find(out))
			default:
				t.Logf("%s fails", test)
			}
		})
	}
}

var (
	failedSeed = regexp.MustCompile(`-work\.seed (\d+)`)
	firstError = regexp.MustCompile(`\w+_test\.go:\d+: .*`)
)

// build makes the test binary of the package without the rule.
func (r rule) build(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	replace := map[string]string{}
	for file, text := range r.without(t) {
		copied := filepath.Join(temp, filepath.Base(file))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(dir, file)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(temp, "overlay.json"), filepath.Join(temp, "work.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", list, "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
