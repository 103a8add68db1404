// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const limit = 30 * time.Minute // for one command on a busy machine: make fuzz compiles a lot

// words splits a command like a shell that supports only quotes.
func words(command string) []string {
	var all []string
	word, quote, in := strings.Builder{}, rune(0), false
	for _, r := range command + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && r == ' ':
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	return all
}

// commands is the table. Its rows read it too, so TestMain sets it.
var commands map[string]row

var bin string // the folder of built programs, set by TestMain

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "commands-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin, commands = dir, table
		addTwoClusters()
		return e2etest.Main(m)
	}())
}

// build returns the program of a package such as ./examples/quickstart; go run would build it for each command.
func build(t *testing.T, pkg string) string {
	t.Helper()
	return e2etest.Program(t, strings.TrimPrefix(pkg, "./examples/"), false)
}

// attempt runs a command and returns its output and exit status. "go run PKG" of an example runs the
// built program, in its own folder.
func attempt(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	return attemptWith(t, nil, args...)
}

// attemptWith is like attempt, with more environment variables.
func attemptWith(t *testing.T, environ []string, args ...string) (out string, status int) {
	t.Helper()
	dir := root
	if len(args) > 2 && args[0] == "go" && args[1] == "run" && args[2] != "-C" {
		args = append([]string{build(t, args[2])}, args[3:]...)
		dir = t.TempDir()
	}
	return attemptIn(t, dir, environ, args...)
}

// attemptIn runs a command in a folder.
func attemptIn(t *testing.T, dir string, environ []string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOWORK=off", "KUBECONFIG="+os.DevNull), environ...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// execute runs a command that must succeed.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	out, status := attempt(t, args...)
	if status != 0 {
		t.Fatalf("%s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

func wantOutput(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("does not print %q, but:\n%s", want, out)
	}
}

// asItIs runs a command, which must print a text.
func asItIs(want string) row {
	return row{try: func(t *testing.T, command string) { wantOutput(t, execute(t, words(command)...), want) }}
}

// incomplete runs a command that only names a program: the program must print what it needs.
func incomplete(want string) row {
	return row{try: func(t *testing.T, command string) {
		out, status := attempt(t, words(command)...)
		wantOutput(t, out, want)
		if status != 2 {
			t.Errorf("exit status %d, not 2", status)
		}
	}}
}

// shorter runs the program of a command with smaller arguments, which include each flag of the
// command. TREE is the top of the tree, and BROKER the address of a broker.
func shorter(args, want string) row {
	return row{try: func(t *testing.T, command string) {
		tree, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		all, first := words(command), 3 // index of the first argument
		if all[2] == "-C" {
			first = 5
		}
		args := strings.ReplaceAll(args, "TREE", tree)
		if strings.Contains(args, "BROKER") {
			args = strings.ReplaceAll(args, "BROKER", mosquitto.Start(t, mosquitto.Options{}).URL())
		}
		sameFlags(t, all[first:], words(args))
		wantOutput(t, execute(t, append(all[:first:first], words(args)...)...), want)
	}}
}

// sameFlags fails the test if the run command lacks a flag of the documented command.
func sameFlags(t *testing.T, document, typed []string) {
	t.Helper()
	for _, flag := range document {
		if strings.HasPrefix(flag, "-") && !slices.Contains(typed, flag) {
			t.Errorf("%s is in the document, and not tried", flag)
		}
	}
}

var (
	// result is the line of a benchmark that has run.
	result    = regexp.MustCompile(`(?m)^Benchmark\S+\s+\d+\s`)
	benchtime = regexp.MustCompile(` -benchtime[ =]\S+`)
)

// once runs each benchmark of a command for one round.
var once = sized("")

// sized runs the benchmarks of one size.
func sized(pattern string) row {
	return row{lane: measured, try: func(t *testing.T, command string) { benchmark(t, command, pattern) }}
}

// benchmarks records the benchmarks that have run, for commands that differ only in the number of
// rounds.
var benchmarks = map[string]string{}

func benchmark(t *testing.T, command, pattern string) {
	t.Helper()
	args := words(benchtime.ReplaceAllString(command, ""))
	if at := slices.Index(args, "-bench") + 1; pattern != "" &&
		strings.HasPrefix(pattern, strings.TrimSuffix(args[at], "$")+"/") {
		args[at] = pattern
	} else if pattern != "" {
		t.Errorf("%s is no size of %s", pattern, args[at])
	}
	g := parseGoTest(t, args[2:])
	for _, pkg := range g.packages {
		key := strings.Join([]string{g.folder, pkg, g.bench}, " ")
		out, ok := benchmarks[key]
		if !ok {
			out = runBenchmarks(t, path.Join(".", g.folder), pkg, g.bench)
			benchmarks[key] = out
		}
		if !result.MatchString(out) {
			t.Errorf("no benchmark of %s has run:\n%s", pkg, out)
		}
		wantOutput(t, out, "PASS")
	}
}

// runBenchmarks works like go test, but links the tests of a package once for all commands.
func runBenchmarks(t *testing.T, module, pkg, pattern string) string {
	t.Helper()
	binary := filepath.Join(bin, strings.NewReplacer("/", "-", ".", "").Replace(module+"-"+pkg)+".test")
	if _, err := os.Stat(binary); err != nil {
		execute(t, "go", "test", "-C", module, "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, pkg)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime=1x",
		"-test.benchmem", "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(root, module, pkg)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("benchmark %s of %s: %v\n%s", pattern, pkg, err, out)
	}
	return string(out)
}

// in marks a step of a session.
func in(session string) row { return row{session: session} }

// never gives the reason why a command is not run.
func never(reason string) row { return row{not: reason} }

// shell runs a command in a shell.
var shell = row{try: func(t *testing.T, command string) { execute(t, "bash", "-c", command) }}

// rsyncStory marks the commands that TestStory reads from the documentation of examples/rsync, on
// clusters of three kinds.
var rsyncStory = typedBy("internal/e2e/rsync", "TestStory", `filepath.Join(root, "examples", "rsync", "main.go")`)

// installation, operations and moveFromCRD mark the commands that these tests read from the README of
// examples/work-apiserver and from OPERATIONS.md.
var (
	installation = typedBy("internal/e2e/apiserver", "TestInstallation", `s.manifest("README.md")`)
	operations   = typedBy("internal/e2e/install", "TestManual", `"OPERATIONS.md"`)
	moveFromCRD  = typedBy("internal/e2e/apiserver", "TestMoveFromCRD", `s.manifest("README.md")`)
)

// begun marks a command that other commands continue. These commands are run.
var begun = row{try: func(t *testing.T, command string) {
	for other := range commands {
		if strings.HasPrefix(other, command+" ") {
			return
		}
	}
	t.Error("no command goes on with it")
}}
