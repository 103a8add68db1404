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

// line is a command line with the expected exit status and error.
type line struct {
	reason string
	args   []string
	status int
	want   string
}

// NeedsCluster checks the errors of a program that needs a cluster: without a kubeconfig, and if no
// server listens at the address. The error must start with the name of the program, and be on
// standard error only. For the address, it must contain what, the failed action.
func NeedsCluster(
	t *testing.T, program, what string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) int,
) {
	t.Helper()
	closed := Kubeconfig(t, "https://127.0.0.1:1")
	needs(t, program, run, line{"a closed port", []string{"--kubeconfig", closed}, command.Failed, what +
		" on https://127.0.0.1:1: "})
}

// NeedsKubeconfig is [NeedsCluster] for a program that waits for the cluster if no server listens
// at the address.
func NeedsKubeconfig(
	t *testing.T, program string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) int,
) {
	t.Helper()
	needs(t, program, run)
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

func needs(t *testing.T, program string, run func(
	ctx context.Context, args []string, stdout, stderr io.Writer,
) int, more ...line) {
	t.Helper()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	for _, tt := range append([]line{
		{"an unknown flag", []string{"--now"}, command.Misuse, "-now\nRun with --help"},
		{"no kubeconfig", nil, command.Failed, "no kubeconfig found: set --kubeconfig"},
	}, more...) {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			if got := stderr.String(); !strings.HasPrefix(got, program+": ") || !strings.Contains(got, tt.want) ||
				stdout.Len() > 0 {
				t.Errorf("%q, %q; want %q", stdout.String(), got, tt.want)
			}
		})
	}
}
