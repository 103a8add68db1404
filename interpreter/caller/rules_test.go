// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// numbered returns n elements: prefix0, prefix1 and so on.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// TestGreatRules checks that the largest valid rules use little memory. All combinations of the
// lists of one rule took 300 MB.
func TestGreatRules(t *testing.T) {
	kinds := v1alpha1.KindRuleWithOperations{Operations: v1alpha1.InterpreterOperations(),
		KindRule: v1alpha1.KindRule{APIGroups: numbered("g", 64), APIVersions: numbered("v", 64), Kinds: numbered("K", 64)}}
	resources := resourceRule("*", "", "", "", "*")
	resources.APIGroups, resources.APIVersions, resources.Resources = numbered("h", 64), numbered("v", 64), numbered("r", 64)
	both := explore(exploring("b", nowhere, resources))
	both.Interpreting = inter(interpreting("a", nowhere, kinds)).Interpreting
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := configured(t, caller.Options{Mapper: mapper()}, both)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if bytes := int64(after.HeapAlloc) - int64(before.HeapAlloc); bytes > 16<<20 {
		t.Errorf("two rules take %d MB", bytes>>20)
	}
	for _, o := range v1alpha1.InterpreterOperations() {
		kind := workloadKind
		kind.Group, kind.Version, kind.Kind = "g63", "v63", "K63"
		if got, err := c.Match(o, kind, true); got != "a/w.a.example.com" || err != nil {
			t.Errorf("%s: %q, %v", o, got, err)
		}
		kind.Version = "v64"
		if got, _ := c.Match(o, kind, true); got != "" {
			t.Errorf("%s of another version: %q", o, got)
		}
	}
	if got, _ := c.Match(interpreter.Operation("Guess"), workloadKind, true); got != "" {
		t.Errorf("an operation that there is not: %q", got)
	}
}
