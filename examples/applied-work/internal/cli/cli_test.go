// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/applied-work/internal/cli"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestUsage(t *testing.T) { commandtest.Usage(t, cli.Usage, "manifests", "kubeconfig") }

func TestParse(t *testing.T) {
	if o, err := cli.Parse([]string{"--manifests", "m", "--kubeconfig", "k"}); err != nil || o != (cli.Options{Manifests: "m", Kubeconfig: "k"}) {
		t.Errorf("%+v, %v", o, err)
	}
	commandtest.Refuses(t, cli.Parse, map[string]string{
		"--manifests=":   "--manifests",
		"--kubeconfig=":  "--kubeconfig",
		"another":        `unknown argument "another"`,
		"--concurrent 1": "concurrent",
	})
}
