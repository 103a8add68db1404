// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailures: what goes wrong is said in the program's name, with what to do.
func TestFailures(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	nobody := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(nobody, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   string
	}{
		{"an unknown flag", []string{"--now"}, 2, "-now\nRun with --help"},
		{"no kubeconfig", nil, 1, "name one with --kubeconfig"},
		{"nobody at the address", []string{"--kubeconfig", nobody}, 1, "create a namespace on https://127.0.0.1:1: "},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			if got := stderr.String(); !strings.HasPrefix(got, "watch-bench: ") || !strings.Contains(got, tt.want) || stdout.Len() > 0 {
				t.Errorf("%q, %q; want %q", stdout.String(), got, tt.want)
			}
		})
	}
}
