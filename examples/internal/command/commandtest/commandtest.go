// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandtest has checks for the tests of command lines.
package commandtest

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

// Usage checks that the text of --help has a line for each flag, and fits a terminal.
func Usage(t *testing.T, usage string, flags ...string) {
	t.Helper()
	lines := strings.Split(usage, "\n")
	for _, name := range append(flags, "help") {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  --"+name+" ") }) {
			t.Errorf("--%s is missing", name)
		}
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("too long for a terminal: %s", line)
		}
	}
}

// Refuses checks that each command line, with words separated by one space, is an error that
// contains its mapped text. It also checks that a request for help is [flag.ErrHelp].
func Refuses[O any](t *testing.T, parse func([]string) (O, error), lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		if _, err := parse(strings.Split(line, " ")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", line, err, want)
		}
	}
	for _, help := range []string{"-h", "--help"} {
		if _, err := parse([]string{help}); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v; want flag.ErrHelp", help, err)
		}
	}
}

// Misuse checks that each command line, with words separated by one space, ends with exit status 2,
// the mapped text after the name of the program, and no new file in the current folder. The folder
// is empty but for the file "text".
func Misuse(t *testing.T, program string, run runner, lines map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("text", []byte("no PEM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range lines {
		fails(t, program, run, strings.Split(line, " "), command.Misuse, program+": "+want)
		files, err := os.ReadDir(".")
		if err != nil || len(files) != 1 {
			t.Errorf("%q left %v in the folder, %v", line, files, err)
		}
	}
}

// runner is the function that runs a program, and returns its exit status.
type runner = func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// NeedsCluster checks the errors of a program that needs a cluster: without a kubeconfig, and if no
// server listens at the address. The error must start with the name of the program, and be on
// standard error only. For the address, it must contain what, the failed action.
func NeedsCluster(t *testing.T, program, what string, run runner) {
	t.Helper()
	NeedsKubeconfig(t, program, run)
	closed := Kubeconfig(t, "https://127.0.0.1:1")
	fails(t, program, run, []string{"--kubeconfig", closed}, command.Failed, what+" on https://127.0.0.1:1: ")
}

// NeedsKubeconfig is [NeedsCluster] for a program that waits for the cluster if no server listens
// at the address.
func NeedsKubeconfig(t *testing.T, program string, run runner) {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	fails(t, program, run, []string{"--now"}, command.Misuse, "-now\nRun with --help")
	fails(t, program, run, nil, command.Failed, "no kubeconfig found: set --kubeconfig")
}

// fails checks the exit status and the error of a command line.
func fails(t *testing.T, program string, run runner, args []string, status int, want string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if got := run(t.Context(), args, &stdout, &stderr); got != status {
		t.Errorf("%q: exit status %d, want %d", args, got, status)
	}
	if got := stderr.String(); !strings.HasPrefix(got, program+": ") || !strings.Contains(got, want) || stdout.Len() > 0 {
		t.Errorf("%q: %q, %q; want %q", args, stdout.String(), got, want)
	}
}

// Kubeconfig writes a kubeconfig for an API server, and returns the name of the file.
func Kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server +
		"'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var update = flag.Bool("update", false, "write golden files")

// Golden checks that text is the content of a file, which -update writes.
func Golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got), -update writes it:\n%s", file, diff)
	}
}
