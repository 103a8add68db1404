// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command"
)

func TestLoadKubeconfig(t *testing.T) {
	write := func(host string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://" + host +
			"'}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("KUBECONFIG", write("of-the-environment"))
	for host, file := range map[string]string{"of-the-environment": "", "named": write("named")} {
		if config, err := command.LoadKubeconfig("--kubeconfig", file); err != nil || config.Host != "https://"+host {
			t.Errorf("%q: %+v, %v", file, config, err)
		}
	}
}

func TestLoadKubeconfigErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing, empty, broken := filepath.Join(t.TempDir(), "missing"), file("empty", ""), file("broken", "clusters: [")
	for _, tt := range []struct{ file, want string }{
		{"", "no kubeconfig found: set --kubeconfig"},
		{missing, missing},
		{empty, "--kubeconfig " + empty + ": the file has no cluster"},
		{broken, "--kubeconfig " + broken + ": not a kubeconfig"},
	} {
		if _, err := command.LoadKubeconfig("--kubeconfig", tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v; want %q", tt.file, err, tt.want)
		}
	}
}
