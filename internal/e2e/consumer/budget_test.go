// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package consumer_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/budgets.txt")

const (
	budgetFile   = "budgets.txt"
	budgetHeader = `# Effects of go get of one package on the controller in testdata/controller: the requirements that it adds to go.mod or raises,
# the number of packages of other modules in a program that uses the package, and the size of that program without symbols.
# Effects of every package are listed once, first.
`
	everyPackage = "every package"
	// A new version of Go makes binaries larger or smaller. The limit must only detect a new
	// dependency.
	tolerance = 0.10
)

// cost is the effect of one package on a module, and on a program that uses it.
type cost struct {
	changes  []string
	packages int
	bytes    int64 // 0 for test kits
}

// compare fails the test if the cost is over its budget, or if it changes other requirements.
func (c cost) compare(t *testing.T, budget cost, common []string) {
	t.Helper()
	want := slices.Concat(budget.changes, common)
	slices.Sort(want)
	if diff := cmp.Diff(want, c.changes); diff != "" {
		t.Errorf("go.mod changes in other ways than %s has it (-want +got):\n%s", budgetFile, diff)
	}
	if c.packages > budget.packages {
		t.Errorf("%d packages of other modules: the budget is %d", c.packages, budget.packages)
	}
	if most := int64(float64(budget.bytes) * (1 + tolerance)); c.bytes > most {
		t.Errorf("%.1f MiB: the budget is %.1f MiB, and a tenth more", mebibytes(c.bytes), mebibytes(budget.bytes))
	}
	t.Logf("%d packages, %.1f MiB", c.packages, mebibytes(c.bytes))
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// readBudgets reads testdata/budgets.txt: a line for each package, and its changes below, indented.
func readBudgets(t *testing.T) map[string]cost {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", budgetFile))
	if os.IsNotExist(err) && *update {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	return parseBudgets(t, string(text))
}

func parseBudgets(t *testing.T, text string) map[string]cost {
	t.Helper()
	budgets := map[string]cost{}
	pkg := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Fields(line)
		switch {
		case line == everyPackage+":":
			pkg = everyPackage
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			c := budgets[pkg]
			c.changes = append(c.changes, strings.TrimSpace(line))
			budgets[pkg] = c
		default:
			if len(fields) != 3 && len(fields) != 5 {
				t.Fatalf("%s: %q is not PACKAGE: N packages, SIZE MiB", budgetFile, line)
			}
			pkg = strings.TrimSuffix(fields[0], ":")
			c := cost{packages: int(number(t, fields[1]))}
			if len(fields) == 5 {
				c.bytes = int64(number(t, fields[3]) * (1 << 20))
			}
			budgets[pkg] = c
		}
	}
	return budgets
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s: %v", budgetFile, err)
	}
	return n
}

// budgetText returns the content of the file after -update.
func budgetText(packages []string, costs []cost) string {
	var text strings.Builder
	text.WriteString(budgetHeader)
	fmt.Fprintf(&text, "\n%s:\n", everyPackage)
	common := slices.Clone(costs[0].changes)
	for _, c := range costs {
		common = slices.DeleteFunc(common, func(change string) bool { return !slices.Contains(c.changes, change) })
	}
	for _, change := range common {
		fmt.Fprintf(&text, "\t%s\n", change)
	}
	for i, c := range costs {
		fmt.Fprintf(&text, "\n%s: %d packages", packages[i], c.packages)
		if c.bytes > 0 {
			fmt.Fprintf(&text, ", %.1f MiB", mebibytes(c.bytes))
		}
		text.WriteString("\n")
		for _, change := range c.changes {
			if !slices.Contains(common, change) {
				fmt.Fprintf(&text, "\t%s\n", change)
			}
		}
	}
	return text.String()
}

// TestWrittenBudgets reads a written budget, so -update is reliable.
func TestWrittenBudgets(t *testing.T) {
	packages := []string{"codec", "rsync/store", "rsync/store/storetest"}
	costs := []cost{
		{changes: []string{"add a", "raise b"}, packages: 70, bytes: 3 << 20}, {changes: []string{"raise b"}, bytes: 3 << 19},
		{changes: []string{"add c", "raise b"}, packages: 6},
	}
	read := parseBudgets(t, budgetText(packages, costs))
	want := map[string]cost{
		everyPackage: {changes: []string{"raise b"}},
		"codec":      {changes: []string{"add a"}, packages: 70, bytes: 3 << 20}, "rsync/store": {bytes: 3 << 19},
		"rsync/store/storetest": {changes: []string{"add c"}, packages: 6},
	}
	if diff := cmp.Diff(want, read, cmp.AllowUnexported(cost{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The file itself equals the output of -update.
	budgets := readBudgets(t)
	packages, costs = nil, nil
	for _, pkg := range slices.Sorted(maps.Keys(budgets)) {
		if c := budgets[pkg]; pkg != everyPackage {
			c.changes = slices.Sorted(slices.Values(slices.Concat(c.changes, budgets[everyPackage].changes)))
			packages, costs = append(packages, pkg), append(costs, c)
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", budgetFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(budgetText(packages, costs), string(text)); diff != "" {
		t.Errorf("%s is not as -update writes it (-want +got):\n%s", budgetFile, diff)
	}
}
