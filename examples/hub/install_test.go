// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

const grpcFlags = "--grpc :8443 --grpc-cert /credentials/tls.crt --grpc-key /credentials/tls.key " +
	"--grpc-client-ca /credentials/ca.crt"

// TestInstall compares the manifests of a hub with a volume, and of one with a database.
func TestInstall(t *testing.T) {
	for file, line := range map[string]string{
		"testdata/install-volume.yaml": "install --image hub:v1 -- " + grpcFlags,
		"testdata/install-database.yaml": "install --image hub:v1 --namespace fleet -- --broker mqtts://b --allowed-host h " +
			"--store postgres://hub@db/hub --kubeconfig auto",
		"testdata/install-join.yaml": "install --image hub:v1 -- --grpc :8443 --certs /credentials --join-listen :8444 " +
			"--join-url https://hub.example.com:8444",
	} {
		var stdout, stderr strings.Builder
		if status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit status %d: %s", line, status, stderr.String())
		}
		commandtest.Golden(t, file, stdout.String())
	}
}

func TestInstallRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"install":                                               "--image is required",
		"install --image i":                                     "after --: --broker or --grpc is required",
		"install --image i --broker mqtt://b":                   "unknown flag --broker",
		"install --image i hub":                                 `unknown argument "hub": put the flags of hub after --`,
		"install --image i --namespace A -- x":                  `--namespace: "A": a lowercase RFC 1123 label`,
		"install --image i -- " + grpcFlags + " x":              `after --: unknown argument "x"`,
		"install --image i -- --grpc 127.0.0.1:1":               `--grpc: "127.0.0.1:1": must be :NUMBER`,
		"install --image i -- --broker mqtt://b --kubeconfig k": "--kubeconfig must be auto",
		"install --image i -- " + strings.Replace(grpcFlags, ":8443", ":https", 1): `--grpc: ":https": must be :NUMBER`,
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr)
		if status != command.Misuse || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit status %d, %s; want %q", line, status, stderr.String(), want)
		}
	}
}
