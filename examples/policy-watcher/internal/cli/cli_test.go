// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/policy-watcher/internal/cli"
)

func TestHandle(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		ok     bool
		want   string
	}{
		{"nothing is needed", nil, 0, true, ""},
		{"everything", []string{"--kubeconfig", "k", "--metrics", "127.0.0.1:0", "--v", "2"}, 0, true, ""},
		{"no metrics", []string{"--metrics", "0"}, 0, true, ""},
		{"help", []string{"--help"}, 0, false, "Usage: "},
		{"an unknown flag", []string{"--now"}, 2, false, "-now"},
		{"an argument", []string{"now"}, 2, false, `unknown argument "now"`},
		{"no file", []string{"--kubeconfig", " "}, 2, false, "--kubeconfig must not be empty"},
		{"no port", []string{"--metrics", "localhost"}, 2, false, "--metrics must be a host:port"},
		{"too talkative", []string{"--v", "11"}, 2, false, "--v must be from 0 to 10"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var out, err bytes.Buffer
			_, status, ok := cli.Handle(tt.args, &out, &err)
			if status != tt.status || ok != tt.ok {
				t.Errorf("status %d, ok %v", status, ok)
			}
			if text := out.String() + err.String(); !strings.Contains(text, tt.want) {
				t.Errorf("%q lacks %q", text, tt.want)
			}
		})
	}
}

func TestUsageNamesEachFlag(t *testing.T) {
	usage := cli.Usage
	for _, name := range []string{"kubeconfig", "metrics", "v", "help"} {
		if !strings.Contains(usage, "\n  --"+name+" ") {
			t.Errorf("--%s is not in the usage", name)
		}
	}
}

func TestConfigOfMissingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := (cli.Options{Kubeconfig: missing}).Config(); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v does not name the file", err)
	}
}
