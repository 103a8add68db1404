// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]options{
		"":                                     {Metrics: ":8080"},
		"--kubeconfig k --metrics 127.0.0.1:0": {Kubeconfig: "k", Metrics: "127.0.0.1:0"},
		"--metrics 0":                          {Metrics: "0"},
	} {
		if got, err := parse(strings.Fields(args)); got != want || err != nil {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"--now":               "-now",
		"now":                 `unknown argument "now"`,
		"--kubeconfig=":       "--kubeconfig must not be empty",
		"--metrics localhost": "--metrics must be a host:port",
	})
}

func TestUsage(t *testing.T) { commandtest.Usage(t, usage, "kubeconfig", "metrics") }
