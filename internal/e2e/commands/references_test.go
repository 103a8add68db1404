// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// link matches a link within the tree, and heading matches a possible target in a document.
	link    = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
	// named matches the name of a test, and place matches a file or folder of the tree.
	named = regexp.MustCompile("`(Test\\w+)(?:/[^`]*)?`")
	place = regexp.MustCompile(
		"`((?:appliedwork|cloudevents|codec|dynamicwatcher|examples|internal|interpreter|rsync)/[\\w./-]+)`")
)

// TestReferences checks that the tests, files, folders and headings that documents name exist.
func TestReferences(t *testing.T) {
	var found testFiles
	found.read(t, ".", true)
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, pattern := range []string{"cloudevents/work/PROTOCOL.md", "examples/*.md", "examples/*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(more) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(root)+"/"), func(t *testing.T) {
			folder, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			text := fenced.ReplaceAllString(read(t, path.Join(folder, filepath.Base(file))), "")
			for _, match := range named.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(found.tests, match[1]) {
					t.Errorf("there is no %s", match[1])
				}
			}
			for _, match := range place.FindAllStringSubmatch(text, -1) {
				if _, err := os.Stat(filepath.Join(root, folder, match[1])); err != nil { // it is not next to the page
					exists(t, match[1])
				}
			}
			for _, match := range link.FindAllStringSubmatch(text, -1) {
				other := text
				if match[1] != "" {
					exists(t, path.Join(folder, match[1]))
				}
				if match[1] != "" && match[2] != "" {
					other = read(t, path.Join(folder, match[1]))
				}
				if match[2] != "" && !slices.Contains(anchors(other), match[2]) {
					t.Errorf("%s#%s leads nowhere", match[1], match[2])
				}
			}
		})
	}
}

// anchors returns the names of a document's headings in links.
func anchors(text string) []string {
	var all []string
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.NewReplacer(" ", "-", "'", "", "`", "", ":", "", ",",
			"").Replace(strings.ToLower(strings.TrimSpace(match[1]))))
	}
	return all
}

func exists(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		t.Error(err)
	}
}

var (
	bold   = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)
	number = regexp.MustCompile(`\d+(?:\.\d+)?`)
)

// TestFigures checks that BENCHMARKS.md contains the figures of the README, so both documents
// agree.
func TestFigures(t *testing.T) {
	_, table, ok := strings.Cut(read(t, "README.md"), "## Guarantees and figures")
	if table, _, _ = strings.Cut(table, "\n## "); !ok || len(bold.FindAllString(table, -1)) < 5 {
		t.Fatal("the README has no figures")
	}
	known := number.FindAllString(strings.ReplaceAll(read(t, "BENCHMARKS.md"), ",", ""), -1)
	for _, figure := range bold.FindAllStringSubmatch(table, -1) {
		for _, n := range number.FindAllString(figure[1], -1) {
			if !slices.Contains(known, n) {
				t.Errorf("the README has %s, and BENCHMARKS.md no %s", figure[1], n)
			}
		}
	}
}
