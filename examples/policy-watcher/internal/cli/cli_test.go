// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/policy-watcher/internal/cli"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]cli.Options{
		"": {Metrics: ":8080"},
		"--kubeconfig k --metrics 127.0.0.1:0 --v 2": {Kubeconfig: "k", Metrics: "127.0.0.1:0", Verbosity: 2},
		"--metrics 0": {Metrics: "0"},
	} {
		if got, err := cli.Parse(strings.Fields(args)); got != want || err != nil {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, cli.Parse, map[string]string{
		"--now":               "-now",
		"now":                 `unknown argument "now"`,
		"--kubeconfig=":       "--kubeconfig must not be empty",
		"--metrics localhost": "--metrics must be a host:port",
		"--v 11":              "--v must be from 0 to 10",
	})
}

func TestUsage(t *testing.T) { commandtest.Usage(t, cli.Usage, "kubeconfig", "metrics", "v") }
