// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cli"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want cli.Options
	}{
		{"", cli.Options{Clusters: 2, BrokerTimeout: 10 * time.Second, Timeout: time.Minute}},
		{"--manifests ./mine --clusters=3 --broker mqtt://b:1883 --timeout 5s --broker-timeout 1s --verbose",
			cli.Options{Manifests: "./mine", Clusters: 3, Broker: "mqtt://b:1883", BrokerTimeout: time.Second, Timeout: 5 * time.Second, Verbose: true}},
		{"-kubeconfig a --kubeconfig=b --keep", cli.Options{Kubeconfigs: []string{"a", "b"}, Clusters: 2, BrokerTimeout: 10 * time.Second, Timeout: time.Minute, Keep: true}},
	} {
		got, err := cli.Parse(strings.Fields(tt.args))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", tt.args, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"mine":                          `unknown argument "mine"`,
		"--no-such-flag":                "-no-such-flag",
		"--clusters 0":                  "--clusters must be from 1 to 1000, not 0",
		"--clusters many":               "-clusters",
		"--clusters 2 --kubeconfig a":   "--clusters is for clusters in memory",
		"--keep":                        "--keep needs --kubeconfig",
		"--timeout 0s":                  "must be more than 0",
		"--broker-timeout -1s":          "must be more than 0",
		"--manifests=":                  "--manifests must not be empty",
		"--broker=":                     "--broker must not be empty",
		"--kubeconfig=":                 "a file is required",
		"--kubeconfig a --keep --other": "-other",
	} {
		if _, err := cli.Parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
	}
	if _, err := cli.Parse([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v; want flag.ErrHelp", err)
	}
}

func TestHandle(t *testing.T) {
	for _, tt := range []struct {
		args           []string
		status         int
		ok             bool
		stdout, stderr string
	}{
		{nil, 0, true, "", ""},
		{[]string{"-h"}, 0, false, cli.Usage, ""},
		{[]string{"what"}, cli.Misuse, false, "", "quickstart: unknown argument \"what\"\nRun with --help to see what there is.\n"},
	} {
		var stdout, stderr strings.Builder
		_, status, ok := cli.Handle(tt.args, &stdout, &stderr)
		if status != tt.status || ok != tt.ok || stdout.String() != tt.stdout || stderr.String() != tt.stderr {
			t.Errorf("%q: %d, %v, %q, %q", tt.args, status, ok, stdout.String(), stderr.String())
		}
	}
}

func TestUsageNamesEveryFlag(t *testing.T) {
	for _, name := range []string{"manifests", "clusters", "kubeconfig", "broker", "broker-timeout", "timeout", "keep", "verbose", "help"} {
		if !slices.ContainsFunc(strings.Split(cli.Usage, "\n"), func(line string) bool { return strings.HasPrefix(line, "  --"+name+" ") }) {
			t.Errorf("--%s is missing", name)
		}
	}
	for line := range strings.Lines(cli.Usage) {
		if len(line) > 100 {
			t.Errorf("too long for a terminal: %s", line)
		}
	}
}
