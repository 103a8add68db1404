// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// TestInstall compares the manifests of a server with a volume.
func TestInstall(t *testing.T) {
	line := "install --image server:v1 -- --broker mqtts://b --broker-ca /broker/ca.crt"
	var stdout, stderr strings.Builder
	if status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Errorf("%s: exit status %d: %s", line, status, stderr.String())
	}
	commandtest.Golden(t, "testdata/install.yaml", stdout.String())
}

func TestInstallRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"install --image i": "after --: --broker is required",
		"install --image i --monitoring -- --broker mqtt://b":    "the metrics of work-apiserver need a login",
		"install --image i -- --broker mqtt://b --secure-port=0": "--secure-port 0 must be",
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr)
		if status != command.Misuse || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit status %d, %s; want %q", line, status, stderr.String(), want)
		}
	}
}
