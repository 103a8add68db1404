// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/setup"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want setup.Options
	}{
		{"", setup.Options{Clusters: 2, BrokerTimeout: 10 * time.Second, Timeout: time.Minute}},
		{"--manifests ./mine --clusters=3 --broker mqtt://b:1883 --timeout 5s --broker-timeout 1s --verbose",
			setup.Options{Manifests: "./mine", Clusters: 3, Broker: "mqtt://b:1883", BrokerTimeout: time.Second,
				Timeout: 5 * time.Second, Verbose: true}},
		{"-kubeconfig a --kubeconfig=b --keep", setup.Options{Kubeconfigs: []string{"a", "b"}, Clusters: 2,
			BrokerTimeout: 10 * time.Second, Timeout: time.Minute, Keep: true}},
	} {
		got, err := setup.Parse(strings.Fields(tt.args))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", tt.args, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, setup.Parse, map[string]string{
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
	})
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, setup.Usage, "manifests", "clusters", "kubeconfig", "broker", "broker-timeout", "timeout", "keep",
		"verbose")
}
