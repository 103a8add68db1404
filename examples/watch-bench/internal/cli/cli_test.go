// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/watch-bench/internal/cli"
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
		{"few objects have few watchers", []string{"--objects", "10"}, 0, true, ""},
		{"everything", []string{"--kubeconfig", "k", "--objects", "9", "--watchers", "3", "--size", "0", "--updates", "1", "--timeout", "1m", "--json", "--verbose"}, 0, true, ""},
		{"help", []string{"--help"}, 0, false, "Usage: "},
		{"an unknown flag", []string{"--now"}, 2, false, "-now"},
		{"an argument", []string{"now"}, 2, false, `unknown argument "now"`},
		{"no file", []string{"--kubeconfig", " "}, 2, false, "--kubeconfig must not be empty"},
		{"no objects", []string{"--objects", "0"}, 2, false, "--objects must be from 1 to 100000, not 0"},
		{"watchers with nothing to watch", []string{"--objects", "9", "--watchers", "10"}, 2, false, "--watchers must be from 1 to 9, not 10"},
		{"too large", []string{"--size", "2000000"}, 2, false, "--size must be"},
		{"no updates", []string{"--updates", "0"}, 2, false, "--updates must be"},
		{"no time", []string{"--timeout", "1ms"}, 2, false, "--timeout must be"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var out, err bytes.Buffer
			o, status, ok := cli.Handle(tt.args, &out, &err)
			if status != tt.status || ok != tt.ok {
				t.Errorf("status %d, ok %v", status, ok)
			}
			if ok && o.Watchers > o.Objects {
				t.Errorf("%d watchers of %d objects", o.Watchers, o.Objects)
			}
			if text := out.String() + err.String(); !strings.Contains(text, tt.want) {
				t.Errorf("%q lacks %q", text, tt.want)
			}
		})
	}
}

func TestUsageNamesEachFlag(t *testing.T) {
	usage := cli.Usage
	for _, name := range []string{"kubeconfig", "objects", "watchers", "size", "updates", "timeout", "json", "verbose", "help"} {
		if !strings.Contains(usage, "\n  --"+name+" ") {
			t.Errorf("--%s is not in the usage", name)
		}
	}
}
