// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
)

var patterns = []string{
	"", "a", "^(web|log):[0-9]+$", "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "(a{10}){10}", "(((a?){10}){10}){10}", "a{0,100}",
	"a{100,}", "(?i)straße", "x*y+z??", "(|a|bc)*", `\pL{30}`, "(?:){1000}", "((){100}){10}", "(?s).{1000}",
	strings.Repeat("[\\pL\\pN]", 200), strings.Repeat("(", 400) + strings.Repeat("a*)*", 400),
	"(" + strings.Repeat("abc", 300) + "){1000}", "[[:alpha:]]{2,5}|\\b\\d+\\B",
}

// TestInstructionsAreUpperBound checks that the cost of a match is known before the expression is
// compiled.
func TestInstructionsAreUpperBound(t *testing.T) {
	for _, p := range patterns {
		check(t, p)
	}
}

func check(t *testing.T, pattern string) {
	t.Helper()
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return
	}
	n := instructions(re)
	if n > mostInstructions {
		return
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	if len(prog.Inst) > n+2 { // plus the fail and match instructions
		t.Errorf("%.100q has %d instructions, more than %d", pattern, len(prog.Inst), n+2)
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct{ pattern, text, err string }{
		{"^a+$", "aaa", ""},
		{"b", "aaa", ""},
		{"(", "aaa", "missing closing"},
		{strings.Repeat("a", longestPattern+1), "a", "2049 bytes, more than 2048"},
		{"(a{100}){10}{10}", "a", "invalid nested repetition operator"},
		{"(abcdefghij){1000}", "a", "more than 4096 instructions"},
		{"(a?){100}$", strings.Repeat("a", 100_000), "a regular expression would take more than 1,000,000 steps"},
	} {
		got, err := (&Steps{}).Match(tt.pattern, tt.text)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil &&
			got != regexp.MustCompile(tt.pattern).MatchString(tt.text) {
			t.Errorf("%.100q: %v, %v, want %q", tt.pattern, got, err, tt.err)
		}
	}
}

// FuzzMatch checks the time and memory of a match with a long text.
func FuzzMatch(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "aab")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		check(t, pattern)
		text = strings.Repeat(text, 1+10_000/(1+len(text)))
		hostiletest.Check(t, func() { _, _ = (&Steps{}).Match(pattern, text) })
	})
}
