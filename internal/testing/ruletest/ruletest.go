// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ruletest removes rules from copies of a package's sources, one at a time. A test can then
// require that another test fails without the rule. The sources do not depend on it.
package ruletest

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Rule is a behaviour that the code has for a reason, with the edits that remove it.
type Rule struct {
	Name string
	Test string // the go test -run pattern of the test that must fail
	// Package is the path of the test's package, from the working directory. Defaults to ".".
	Package string
	Edits   []Edit
}

// Edit is a file name, a text that occurs once in the file, and its replacement.
type Edit [3]string

// Without returns the files in a folder without the rule, by name. It fails the test unless the
// text of each edit occurs exactly once. After a change of such a line, the list of rules must
// change too.
func (r Rule) Without(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range r.Edits {
		file, before, after := e[0], e[1], e[2]
		text, ok := out[file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if n := strings.Count(text, before); n != 1 {
			t.Errorf("%s: %s has %d times what removes the rule, not once:\n%s", r.Name, file, n, before)
		}
		out[file] = strings.Replace(text, before, after, 1)
	}
	return out
}

// Build builds the test binary of the rule's package, without the rule in the sources of folder.
func (r Rule) Build(t *testing.T, folder string) (binary string) {
	t.Helper()
	sources, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	replace := map[string]string{}
	for file, text := range r.Without(t, folder) {
		copied := filepath.Join(temp, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(sources, file)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(temp, "rule.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", list, "-o", binary,
		cmp.Or(r.Package, ".")).CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// MustFail runs the rule's test in a binary without the rule. It fails the test if the rule's test
// passes, or panics other than by -test.timeout, which args may set. It returns the output.
func (r Rule) MustFail(t *testing.T, binary string, args ...string) string {
	t.Helper()
	args = append([]string{"-test.run", r.Test, "-test.timeout", "0"}, args...)
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	switch {
	case err == nil:
		t.Errorf("%s does not fail", r.Test)
	case strings.Contains(string(out), "panic:") && !strings.Contains(string(out), "panic: test timed out"):
		t.Errorf("%s panics:\n%.3000s", r.Test, out)
	}
	return string(out)
}
