// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testFiles maps each folder to the text of its test files.
type testFiles map[string]string

func readTests(t *testing.T) testFiles {
	t.Helper()
	all := testFiles{}
	walk(t, func(file string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		all[path.Dir(file)] += string(text)
	})
	return all
}

// missing returns the fault of a reference to a test: the test does not exist, or several folders
// have it and the reference names no folder.
func (f testFiles) missing(name, folder string) string {
	parts := strings.Split(name, "/")
	var folders []string
	for in, text := range f {
		if strings.Contains(text, "\nfunc "+parts[0]+"(t *testing.T)") && (folder == "" || folder == in) {
			folders = append(folders, in)
		}
	}
	slices.Sort(folders)
	switch {
	case len(folders) == 0:
		return "there is no " + parts[0]
	case len(folders) > 1:
		return fmt.Sprintf("%s is in %s: name the folder", parts[0], strings.Join(folders, ", "))
	}
	for _, part := range parts[1:] {
		if !strings.Contains(f[folders[0]], `"`+part+`"`) {
			return fmt.Sprintf("%s has no subtest %s", parts[0], part)
		}
	}
	return ""
}

var (
	testReference = regexp.MustCompile("`(Test[A-Za-z0-9_/]+)`(?:\\s+in\\s+`([^`]+)`)?")
	listItem      = regexp.MustCompile(`(?m)^- (?:.*\n)(?:  .*\n)*`)
	partHeading   = regexp.MustCompile(`(?m)^#### (.*)$`)
	partRow       = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \|$`)
)

// unproven returns the faults of a text like SECURITY.md: names of tests that do not exist, and
// parts of the table "Who trusts whom" without a list of forbidden actions. An item of such a list
// is a fault if it neither names a test nor is advice.
func unproven(text string, tests testFiles) (wrong []string) {
	for _, reference := range testReference.FindAllStringSubmatch(text, -1) {
		if problem := tests.missing(reference[1], reference[2]); problem != "" {
			wrong = append(wrong, problem)
		}
	}
	_, trust, _ := strings.Cut(text, "## Who trusts whom\n")
	trust, _, _ = strings.Cut(trust, "\n## ")
	table, lists, found := strings.Cut(trust, "### What a part cannot do\n")
	if !found {
		return append(wrong, "there is no section What a part cannot do")
	}
	var parts, headings []string
	for _, row := range partRow.FindAllStringSubmatch(table, -1) {
		parts = append(parts, row[1])
	}
	for _, heading := range partHeading.FindAllStringSubmatch(lists, -1) {
		headings = append(headings, heading[1])
	}
	for _, part := range parts[min(1, len(parts)):] { // the first part is the table header
		if !slices.Contains(headings, part) {
			wrong = append(wrong, "no list has what this part cannot do: "+part)
		}
	}
	for _, item := range listItem.FindAllString(lists, -1) {
		if !testReference.MatchString(item) && !strings.Contains(item, "(advice)") {
			wrong = append(wrong, "no test: "+strings.TrimSpace(item))
		}
	}
	return wrong
}

// TestSecurityNamesTests checks that SECURITY.md names a test for each forbidden action of a part,
// and that every named test exists.
func TestSecurityNamesTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range unproven(string(text), readTests(t)) {
		t.Error(wrong)
	}
	if n := len(listItem.FindAllString(string(text), -1)); n < 40 {
		t.Errorf("found %d items: the parser has lost the lists", n)
	}
}

// TestUnproven runs the check above on a text with each kind of mistake.
func TestUnproven(t *testing.T) {
	const text = `
## Who trusts whom

| part | is trusted with | can |
|---|---|---|
| hub | a | b |
| agent | a | b |

### What a part cannot do

#### hub

- read a file (` + "`TestRead`" + `)
- write a file
- write a large file, on
  two lines (` + "`TestWrite` in\n  `b`" + `)
- guess (advice)
- count (` + "`TestRead/Two`, `TestRead/Three`" + `)
- add (` + "`TestNone`, `TestWrite`, `TestWrite` in `c`" + `)

## Next

- nothing
`
	tests := testFiles{
		"a": "\nfunc TestRead(t *testing.T) { t.Run(\"Two\") }\nfunc TestWrite(t *testing.T) {",
		"b": "\nfunc TestWrite(t *testing.T) {",
	}
	want := []string{
		"TestRead has no subtest Three", "there is no TestNone", "TestWrite is in a, b: name the folder",
		"there is no TestWrite",
		"no list has what this part cannot do: agent", "no test: - write a file",
	}
	if diff := cmp.Diff(want, unproven(text, tests)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
