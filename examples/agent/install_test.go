// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// TestInstall compares the manifests of an agent with executors, and with a role. They have the CRD,
// which is the same in both.
func TestInstall(t *testing.T) {
	const hub = "--cluster cluster1 --source hub --hub hub.example.com:8443"
	for file, line := range map[string]string{
		"testdata/install-executors.yaml": "install --image agent:v1 -- " + hub +
			" --executor shop/deployer --executor team-*/ci",
		"testdata/install-role.yaml": "install --image agent:v1 --role edit -- --cluster c " +
			"--hub-kubeconfig /credentials/hub",
		"testdata/install-join.yaml": "install --image agent:v1 --role edit -- " + hub + " --join /data/join " +
			"--join-hub https://hub.example.com:8444 --join-token-file /credentials/token",
	} {
		var stdout, stderr strings.Builder
		if status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit status %d: %s", line, status, stderr.String())
		}
		crd, rest, _ := strings.Cut(stdout.String(), "\n---\n")
		if !strings.Contains(crd, "name: appliedworks.multicluster.x-k8s.io") {
			t.Errorf("%s: the first object is %s", line, crd)
		}
		commandtest.Golden(t, file, rest)
	}
}

// TestImpersonations checks the roles for patterns of service accounts.
func TestImpersonations(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patterns []string
		want     []impersonation
	}{
		{"one account", []string{"a/b"}, []impersonation{{"r", "a", []string{"b"}}}},
		{"accounts of a namespace", []string{"a/b", "a/c", "a/b"}, []impersonation{{"r", "a", []string{"b", "c"}}}},
		{"all accounts of a namespace", []string{"a/b", "a/c*", "a/d"}, []impersonation{{"r", "a", nil}}},
		{"accounts of all namespaces", []string{"c/d", "*/b"}, []impersonation{{"r", "", []string{"b"}}, {"r", "c",
			[]string{"d"}}}},
		{"all accounts", []string{"*/*"}, []impersonation{{"r", "", nil}}},
	} {
		if diff := cmp.Diff(tt.want, impersonations("r", tt.patterns)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	const flags = "--cluster c --source s --hub h:1"
	for line, want := range map[string]string{
		"install --image i -- --cluster c":                              "after --: --hub, --broker or --hub-kubeconfig is",
		"install --image i -- " + flags:                                 "or --role CLUSTERROLE before --",
		"install --image i --role edit -- " + flags + " --executor a/b": "remove --role, or --executor",
		"install --image i --role e -- " + flags + " --kubeconfig k":    "the agent serves the cluster of its Pod",
		"install --image i -- --role edit " + flags:                     "unknown flag --role",
		"install --image i -- " + flags + " --require-executor --role":  "unknown flag --role",
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), strings.Split(line, " "), &stdout, &stderr)
		if status != command.Misuse || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit status %d, %s; want %q", line, status, stderr.String(), want)
		}
	}
}
