// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ci marks commands that .ci/run runs itself: verbs of the Makefile, the commands that they call,
// and the installed packages. A go test counts if its packages are part of make test and its tests
// exist.
var ci = row{try: func(t *testing.T, command string) {
	args := words(command)
	switch {
	case command == ".ci/run":
		info, err := os.Stat(filepath.Join(root, command))
		if err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("it cannot be run: %v", err)
		}
	case args[0] == "make":
		for _, arg := range args[2:] { // numbers: .ci/run uses the Makefile's
			if name, _, _ := strings.Cut(arg, "="); !regexp.MustCompile(`(?m)^` + name + ` +\?=`).MatchString(
				read(t, "Makefile")) {
				t.Errorf("the Makefile has no variable %s", name)
			}
		}
		for _, verb := range parts(t, args[1]) {
			if !slices.Contains(ciVerbs(t), verb) {
				t.Errorf(".ci/run does not run make %s", verb)
			}
		}
	case strings.HasPrefix(command, "apt-get install "):
		for _, name := range args[2:] {
			if !regexp.MustCompile(`(\[\w+\]=|missing\+=\()` + name + `\b`).MatchString(read(t, ".ci/run")) {
				t.Errorf(".ci/run does not install %s", name)
			}
		}
	case strings.HasPrefix(command, "go test "):
		runByMakeTest(t, parseGoTest(t, args[2:]))
	default:
		t.Error(".ci/run does not run that")
	}
}}

// typedBy marks a command that the test of another package runs. The tests of that package contain
// the same words, or the path of the document that they read them from.
func typedBy(folder, test, words string) row {
	return row{try: func(t *testing.T, command string) {
		tests := read(t, folder+"/*_test.go")
		if !strings.Contains(tests, "\nfunc "+test+"(") {
			t.Errorf("%s has no %s", folder, test)
		}
		if words == "" {
			words = strings.TrimPrefix(command, "go ") // the name of the program
		}
		if !strings.Contains(tests, words) {
			t.Errorf("the tests of %s have no %q", folder, words)
		}
	}}
}

// read returns the text of all files that match a pattern.
func read(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no %s: %v", pattern, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// rule returns the prerequisites of a verb of the Makefile, and its recipe.
func rule(t *testing.T, verb string) (before []string, recipe string) {
	t.Helper()
	makefile := read(t, "Makefile")
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(verb) + `:([^#\n]*)##.*\n((?:\t.*\n)*)`).FindStringSubmatch(
		makefile)
	if match == nil {
		t.Fatalf("the Makefile has no %s", verb)
	}
	return strings.Fields(match[1]), strings.ReplaceAll(match[2], "\\\n\t", "")
}

// parts returns the verbs that a verb consists of: itself, if it has a recipe, and its
// prerequisites.
func parts(t *testing.T, verb string) []string {
	t.Helper()
	before, recipe := rule(t, verb)
	if recipe != "" {
		before = append(before, verb)
	}
	return before
}

// ciVerbs returns the verbs that .ci/run runs, directly or indirectly.
func ciVerbs(t *testing.T) []string {
	t.Helper()
	var verbs []string
	add := func(verb string) {
		before, recipe := rule(t, verb)
		verbs = append(append(verbs, verb), before...)
		for _, called := range regexp.MustCompile(`\$\(MAKE\) -s (\w+)`).FindAllStringSubmatch(recipe, -1) {
			verbs = append(verbs, called[1])
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^ *make ([a-z-]+)$|^for verb in (.*); do$`).FindAllStringSubmatch(
		read(t, ".ci/run"), -1) {
		for verb := range strings.FieldsSeq(match[1] + match[2]) {
			add(verb)
		}
	}
	return verbs
}

// goTest is a go test command.
type goTest struct {
	folder   string // of the module
	packages []string
	tests    []string // the alternatives of -run
	bench    string
	tags     string
	flags    []string // flags of the tests themselves
}

// goTestFlags are the flags of the go command. The value is whether an argument follows.
var goTestFlags = map[string]bool{
	"-run": true, "-bench": true, "-benchtime": true, "-benchmem": false, "-count": true, "-C": true, "-timeout": true,
	"-tags": true, "-p": true, "-parallel": true, "-v": false, "-race": false,
}

func parseGoTest(t *testing.T, args []string) (g goTest) {
	t.Helper()
	for len(args) > 0 {
		flag, value, inOne := strings.Cut(args[0], "=")
		args = args[1:]
		takes, known := goTestFlags[flag]
		if !strings.HasPrefix(flag, "-") {
			if g.flags != nil {
				t.Errorf("the go command takes %s for an argument of the tests: packages come before flags that it does not know",
					flag)
			}
			g.packages = append(g.packages, flag)
			continue
		}
		if !known {
			g.flags = append(g.flags, strings.TrimPrefix(flag, "-"))
		}
		if (takes || !known) && !inOne && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			value, args = args[0], args[1:]
		}
		switch flag {
		case "-C":
			g.folder = value
		case "-run":
			g.tests = strings.Split(value, "|")
		case "-bench":
			g.bench = value
		case "-tags":
			g.tags = value
		}
	}
	return g
}

// runByMakeTest fails if make test does not run everything that a command names.
func runByMakeTest(t *testing.T, g goTest) {
	t.Helper()
	if g.tags != "" {
		t.Errorf("make test has no -tags %s", g.tags)
	}
	_, recipe := rule(t, "test")
	if module := map[string]string{"": `(?m)^\t(?:.*; )?\$\(GO\) test -race .*\./\.\.\.`,
		"internal/e2e": `(?m)^\t.*cd internal/e2e && .* -race .*\./\.\.\.`}[g.folder]; module == "" ||
		!regexp.MustCompile(module).MatchString(recipe) {
		t.Errorf("make test does not run all tests of %q", g.folder)
	}
	var found testFiles
	for _, pkg := range g.packages {
		found.read(t, path.Join(g.folder, strings.TrimSuffix(pkg, "...")), strings.HasSuffix(pkg, "..."))
	}
	for _, alternative := range g.tests {
		levels := strings.Split(alternative, "/")
		pattern := regexp.MustCompile(levels[0])
		if !slices.ContainsFunc(found.tests, pattern.MatchString) {
			t.Errorf("no test in %v is called %s", g.packages, pattern)
		}
		for _, name := range levels[1:] {
			if !slices.Contains(found.texts, name) {
				t.Errorf("no subtest in %v is called %s", g.packages, name)
			}
		}
	}
	for _, flag := range g.flags {
		if !slices.Contains(found.flags, flag) {
			t.Errorf("%v have no flag %s", g.packages, flag)
		}
	}
}

// testFiles holds the tests of some packages: their names, possible names of subtests, and flags.
type testFiles struct{ tests, texts, flags []string }

var (
	function = regexp.MustCompile(`(?m)^func (Test\w*)\(`)
	literal  = regexp.MustCompile(`"(\w+)"`)
	defined  = regexp.MustCompile(`flag\.\w+\((?:&\w+, )?"([\w.]+)"`)
)

// read adds the tests of a folder, and of its subfolders if below is true. It skips files that a
// build constraint excludes.
func (f *testFiles) read(t *testing.T, folder string, below bool) {
	t.Helper()
	top := filepath.Join(root, filepath.FromSlash(folder))
	err := filepath.WalkDir(top, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != top && !below:
			return fs.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || constrained(string(text)) {
			return err
		}
		for pattern, names := range map[*regexp.Regexp]*[]string{function: &f.tests, literal: &f.texts, defined: &f.flags} {
			for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
				*names = append(*names, match[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// constrained reports whether a file is excluded from a build on Linux, with or without the race
// detector.
func constrained(text string) bool {
	for line := range strings.Lines(text) {
		if !constraint.IsGoBuild(line) {
			continue
		}
		expr, err := constraint.Parse(strings.TrimSpace(line))
		return err != nil ||
			!expr.Eval(func(tag string) bool { return slices.Contains([]string{"linux", "unix", "race"}, tag) }) &&
				!expr.Eval(func(tag string) bool { return slices.Contains([]string{"linux", "unix"}, tag) })
	}
	return false
}
