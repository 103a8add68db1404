// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lookUp finds what a command names.
func lookUp(t *testing.T, command string) { lookUpIn("")(t, command) }

// lookUpIn does so for a command that is to be typed in a folder.
func lookUpIn(folder string) trial {
	return func(t *testing.T, command string) {
		args := words(command)
		switch args[0] + " " + args[1] {
		case "go run":
			lookUpProgram(t, args[2:])
		case "go test":
			lookUpTests(t, folder, args[2:])
		case "go get":
			for _, pkg := range args[2:] {
				exists(t, strings.TrimPrefix(pkg, "github.com/spokewire/sdk-go/"))
			}
		case "apt-get install":
			for _, name := range args[2:] {
				contains(t, ".ci/run", "["+name+"]=")
			}
		default:
			if args[0] != "make" {
				t.Fatalf("nobody knows how to look that up")
			}
			lookUpVerb(t, args[1:])
		}
	}
}

// known is for commands that name nothing but a program of ours, or of Go.
func known(t *testing.T, command string) {
	switch command {
	case ".ci/run":
		info, err := os.Stat(filepath.Join(root, ".ci", "run"))
		if err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("it cannot be run: %v", err)
		}
	case "go mod tidy":
	default:
		t.Errorf("nobody knows it")
	}
}

// toldBy is for a program that is not ours: a test that does the same without it has to be there.
func toldBy(folder, test string) trial {
	return func(t *testing.T, _ string) { hasTest(t, folder, test) }
}

// shownBy looks a command up, and the test that does the same.
func shownBy(folder, test string) trial {
	return func(t *testing.T, command string) {
		lookUp(t, command)
		hasTest(t, folder, test)
	}
}

func hasTest(t *testing.T, folder, test string) {
	t.Helper()
	if !slices.ContainsFunc(functions(t, folder), func(name string) bool { return strings.HasPrefix(name, test) }) {
		t.Errorf("%s has no %s", folder, test)
	}
}

func exists(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Error(err)
	}
}

func contains(t *testing.T, file, text string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), text) {
		t.Errorf("%s has no %q", file, text)
	}
}

// lookUpProgram finds the flags and the first argument of a program in what it says with --help.
func lookUpProgram(t *testing.T, args []string) {
	t.Helper()
	pkg := args[0]
	if path, ok := strings.CutPrefix(pkg, "github.com/spokewire/sdk-go/"); ok {
		pkg = "./" + strings.TrimSuffix(path, "@latest")
	}
	help := execute(t, "go", "run", pkg, "--help")
	wantOutput(t, help, "Usage: go run "+pkg)
	for i, arg := range args[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "--") || i == 0 {
			if !regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(flag) + `\b`).MatchString(help) {
				t.Errorf("--help does not know %s", flag)
			}
		}
	}
}

// lookUpVerb finds a verb and variables in the Makefile.
func lookUpVerb(t *testing.T, args []string) {
	t.Helper()
	contains(t, "Makefile", "\n"+args[0]+":")
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(arg, "=")
		makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^` + name + ` +\?=`).Match(makefile) {
			t.Errorf("the Makefile has no variable %s", name)
		}
	}
}

// goTestFlags are those of the go command, and whether a value follows.
var goTestFlags = map[string]bool{
	"-run": true, "-bench": true, "-benchtime": true, "-count": true, "-C": true, "-timeout": true, "-tags": true,
	"-v": false, "-benchmem": false, "-race": false,
}

// lookUpTests finds the packages, tests, benchmarks and flags that a go test names.
func lookUpTests(t *testing.T, folder string, args []string) {
	t.Helper()
	var packages, own []string
	var patterns []named
	for len(args) > 0 {
		flag, value, inOne := strings.Cut(args[0], "=")
		args = args[1:]
		takes, known := goTestFlags[flag]
		if !strings.HasPrefix(flag, "-") {
			packages = append(packages, flag)
			continue
		}
		if !known {
			own = append(own, strings.TrimPrefix(flag, "-"))
		}
		if (takes || !known) && !inOne && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			value, args = args[0], args[1:]
		}
		switch flag {
		case "-C":
			folder = value
		case "-run":
			patterns = append(patterns, alternatives("Test", value)...)
		case "-bench":
			patterns = append(patterns, alternatives("Benchmark", value)...)
		}
	}
	var names []string
	for _, pkg := range packages {
		exists(t, filepath.Join(folder, strings.TrimSuffix(pkg, "...")))
		names = append(names, functions(t, filepath.Join(folder, pkg))...)
	}
	for _, pattern := range patterns {
		if !slices.ContainsFunc(names, pattern.matches) {
			t.Errorf("no %s in %v is called %s", pattern.kind, packages, pattern.pattern)
		}
		for _, name := range pattern.below {
			if !slices.Contains(names, "text "+name) {
				t.Errorf("no subtest in %v is called %s", packages, name)
			}
		}
	}
	for _, flag := range own {
		if !slices.Contains(names, "flag "+flag) {
			t.Errorf("%v have no flag %s", packages, flag)
		}
	}
}

// named are functions of a kind, Test or Benchmark, whose names a pattern matches, with subtests of these names.
type named struct {
	kind    string
	pattern *regexp.Regexp
	below   []string
}

func (n named) matches(function string) bool {
	return strings.HasPrefix(function, n.kind) && n.pattern.MatchString(function)
}

// alternatives are those in the value of -run or -bench.
func alternatives(kind, value string) []named {
	var all []named
	if value == "^$" || value == "" {
		return nil
	}
	for one := range strings.SplitSeq(value, "|") {
		levels := strings.Split(one, "/")
		all = append(all, named{kind, regexp.MustCompile(levels[0]), levels[1:]})
	}
	return all
}

var (
	function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w*)\(`)
	defined  = regexp.MustCompile(`flag\.\w+\((?:&\w+, )?"([\w.]+)"`)
	literal  = regexp.MustCompile(`"(\w+)"`)
)

// functions are the tests and benchmarks in a folder's test files, as "flag NAME" the flags, and as
// "text NAME" what may name a subtest. With /... those below count too.
func functions(t *testing.T, folder string) []string {
	t.Helper()
	dir, below := strings.CutSuffix(folder, "...")
	var found []string
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != filepath.Join(root, dir) && !below:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
		for _, match := range defined.FindAllStringSubmatch(string(text), -1) {
			found = append(found, "flag "+match[1])
		}
		for _, match := range literal.FindAllStringSubmatch(string(text), -1) {
			found = append(found, "text "+match[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// begun is a command that others go on with.
func begun(t *testing.T, command string) {
	lookUp(t, strings.TrimSuffix(command, " -bench"))
}
