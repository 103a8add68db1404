// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
	"github.com/spokewire/sdk-go/examples/watch-bench/internal/bench"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]options{
		"": {Options: bench.Options{Objects: 1000, Watchers: 100, Size: 1000, Updates: 500},
			Timeout: 10 * time.Minute},
		"--objects 10": {Options: bench.Options{Objects: 10, Watchers: 10, Size: 1000, Updates: 500},
			Timeout: 10 * time.Minute},
		"--kubeconfig k --objects 9 --watchers 3 --size 0 --updates 1 --consolidate --timeout 1m --json --verbose": {
			Options: bench.Options{Objects: 9, Watchers: 3, Size: 0, Updates: 1, Consolidate: true}, Kubeconfig: "k",
			Timeout: time.Minute, JSON: true, Verbose: true,
		},
	} {
		if got, err := parse(strings.Fields(args)); got != want || err != nil {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"--now":                     "-now",
		"now":                       `unknown argument "now"`,
		"--kubeconfig=":             "--kubeconfig must not be empty",
		"--objects 0":               "--objects must be from 1 to 100000, not 0",
		"--objects 9 --watchers 10": "--watchers must be from 1 to 9, not 10",
		"--size 2000000":            "--size must be",
		"--updates 0":               "--updates must be",
		"--timeout 1ms":             "--timeout must be",
	})
}

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage, "kubeconfig", "objects", "watchers", "size", "updates", "timeout", "json", "verbose")
}
