// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want options
	}{
		{"", options{Clusters: 2, Timeout: 30 * time.Second}},
		{"--manifests ./mine --clusters=3 --broker mqtt://b:1883 --timeout 5s --verbose",
			options{Manifests: "./mine", Clusters: 3, Broker: "mqtt://b:1883", Timeout: 5 * time.Second, Verbose: true}},
		{"-kubeconfig a --kubeconfig=b",
			options{Kubeconfigs: []string{"a", "b"}, Clusters: 2, Timeout: 30 * time.Second}},
	} {
		got, err := parse(strings.Fields(tt.args))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", tt.args, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"mine":                        `unknown argument "mine"`,
		"--no-such-flag":              "-no-such-flag",
		"--clusters 0":                "--clusters must be from 1 to 1000, not 0",
		"--clusters many":             "-clusters",
		"--clusters 2 --kubeconfig a": "--clusters is for clusters in memory",
		"--timeout 0s":                "must be more than 0",
		"--manifests=":                "--manifests must not be empty",
		"--broker=":                   "--broker must not be empty",
		"--kubeconfig=":               "a file is required",
	})
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage, "manifests", "clusters", "kubeconfig", "broker", "timeout", "verbose")
}
