// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"maps"
	"slices"
	"testing"
)

// TestBudgets limits the packages of other modules that each public package adds to a user's build.
func TestBudgets(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(budgets)) {
		t.Run(pkg, func(t *testing.T) {
			foreign := 0
			for _, p := range goList(t, "-deps", "./"+pkg) {
				if !p.Standard && !own(p.ImportPath) {
					foreign++
				}
			}
			compare(t, foreign, budgets[pkg], "packages of other modules")
		})
	}
}

// TestTotals limits all packages of a build, for packages that small programs use.
func TestTotals(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(totals)) {
		t.Run(pkg, func(t *testing.T) {
			compare(t, len(goList(t, "-deps", "./"+pkg)), totals[pkg], "packages, the standard library included,")
		})
	}
}

// TestSourceBinary limits all packages of one whole program.
func TestSourceBinary(t *testing.T) {
	all := goList(t, "-deps", "./internal/archtest/sourcebinary")
	compare(t, len(all), sourceBinaryBudget, "packages, the standard library included,")
}

func compare(t *testing.T, got, budget int, what string) {
	t.Helper()
	switch {
	case got > budget:
		t.Errorf("links %d %s: the budget is %d", got, what, budget)
	case got < budget:
		t.Logf("links %d %s: the budget of %d can be lowered", got, what, budget)
	}
}
