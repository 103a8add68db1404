// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// TestMisuse checks the answers to wrong files and addresses. A hub that does not start leaves no
// folder for its store.
func TestMisuse(t *testing.T) {
	const (
		broker = "--listen 127.0.0.1:0 --broker mqtt://b "
		server = "--listen 127.0.0.1:0 --grpc 127.0.0.1:0 "
	)
	commandtest.Misuse(t, "hub", run, map[string]string{
		"--broker here":                             `--broker "here" has no scheme`,
		broker + "--dir /nope":                      "--dir: open /nope: no such file",
		broker + "--dir text":                       "--dir: open text: not a directory",
		broker + "--customizations /nope":           "--customizations /nope: no such file",
		broker + "--kubeconfig /nope":               "--kubeconfig: open /nope: no such file",
		broker + "--broker-ca text":                 `--broker-ca is set, but --broker "mqtt://b:1883" is not encrypted`,
		"--broker mqtts://b --broker-ca text":       "--broker-ca text contains no certificate in PEM",
		"--broker mqtts://b --broker-key text":      "only one of --broker-cert and --broker-key is set",
		broker + "--password-file /nope":            "--password-file: open /nope: no such file",
		server + "--grpc-client-ca text":            "--grpc-client-ca is set without --grpc-cert and --grpc-key",
		server + "--grpc-cert text --grpc-key text": "--grpc-cert text, --grpc-key text: tls: failed to find any PEM data",
	})
}

// TestAllowWebhook checks that each kind of target is added to its own list, and that no webhook is
// allowed without the flag.
func TestAllowWebhook(t *testing.T) {
	type targets struct {
		Hosts, Services []string
		Networks        []string
	}
	for _, test := range []struct {
		args []string
		want targets
	}{
		{nil, targets{Services: []string{}}},
		{[]string{"--allow-webhook", "localhost:9443", "--allow-webhook", "prod/*", "--allow-webhook", "127.0.0.0/8"},
			targets{[]string{"localhost:9443"}, []string{"prod/*"}, []string{"127.0.0.0/8"}}},
	} {
		o, err := parse(append([]string{"--broker", "mqtt://b"}, test.args...))
		if err != nil {
			t.Fatal(err)
		}
		got := targets{Hosts: o.Hosts, Services: o.Services}
		for _, n := range o.Networks {
			got.Networks = append(got.Networks, netip.Prefix.String(n))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.args, diff)
		}
	}
}

// TestReplicaOptions checks the options of replicas, and that no error contains a password.
func TestReplicaOptions(t *testing.T) {
	const db = "postgres://hub@db.example/hub?sslmode=verify-full"
	for _, test := range []struct{ store, advertise, want string }{
		{db, "", ""},
		{db, "http://10.0.0.7:8080", ""},
		{"postgresql:///hub", "https://hub-0.hub:8443", ""},
		{"hub-data", "http://10.0.0.7:8080", "--advertise needs a --store that replicas can share"},
		{db, "10.0.0.7:8080", "--advertise:"},
		{db, "http://10.0.0.7:8080/page", "must be http://HOST:PORT"},
		{db, "ftp://10.0.0.7:8080", "must be http://HOST:PORT"},
		{"postgres://hub:s3cret@db.example/hub", "", "use PGPASSWORD, PGPASSFILE or PGSERVICE"},
		{"postgres://db.example/hub?password=s3cret", "", "use PGPASSWORD, PGPASSFILE or PGSERVICE"},
		{"postgres://hub:s3cret@db.example:port/hub", "", "--store: must be a URL such as postgres://"},
	} {
		args := []string{"--broker", "mqtt://b", "--store", test.store}
		if test.advertise != "" {
			args = append(args, "--advertise", test.advertise)
		}
		o, err := parse(args)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if (text == "") != (test.want == "") || !strings.Contains(text, test.want) || strings.Contains(text, "s3cret") {
			t.Errorf("%q: %v, want %q", args, err, test.want)
		}
		if err == nil && !o.shared() {
			t.Errorf("%q: no database", args)
		}
	}
}
