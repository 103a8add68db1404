// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestUsage(t *testing.T) { commandtest.Usage(t, usage, "manifests", "kubeconfig") }

func TestParse(t *testing.T) {
	if o, err := parse([]string{"--manifests", "m", "--kubeconfig", "k"}); err != nil ||
		o != (options{Manifests: "m", Kubeconfig: "k"}) {
		t.Errorf("%+v, %v", o, err)
	}
	commandtest.Refuses(t, parse, map[string]string{
		"--manifests=":   "--manifests",
		"--kubeconfig=":  "--kubeconfig",
		"another":        `unknown argument "another"`,
		"--concurrent 1": "concurrent",
	})
}
