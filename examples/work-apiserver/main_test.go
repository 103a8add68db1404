// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestUsage(t *testing.T) {
	commandtest.Usage(t, usage, "broker", "broker-ca", "broker-cert", "broker-key", "username", "password-file", "source",
		"store", "inventory-complete", "forget")
	for _, name := range []string{"secure-port", "tls-cert-file", "kubeconfig", "read-only", "audit-log-path", "v"} {
		if !strings.Contains(help(), "--"+name+" ") {
			t.Errorf("--%s is missing", name)
		}
	}
}

// TestMisuse checks the answers to wrong files and addresses. A server that does not start leaves no
// folder for its store.
func TestMisuse(t *testing.T) {
	commandtest.Misuse(t, "work-apiserver", run, map[string]string{
		"--broker here":                                     `--broker "here" has no scheme`,
		"--broker mqtt://b --kubeconfig /nope":              "--kubeconfig: open /nope: no such file",
		"--broker mqtt://b --authorization-kubeconfig text": "--authorization-kubeconfig text: not a kubeconfig",
		"--broker mqtts://b --broker-ca /nope":              "--broker-ca: open /nope: no such file",
	})
}

func TestParse(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"--store x":                                                "--broker is required",
		"--broker mqtt://b x":                                      `unknown argument "x"`,
		"--broker mqtt://b --store=":                               "--store must not be empty",
		"--broker mqtt://b --source=a/b":                           "--source",
		"--broker mqtt://b --secure-port=-1":                       "--secure-port",
		"--broker mqtt://b --secure-port=0":                        "--secure-port 0 must be",
		"--broker mqtt://b --forget=a/b":                           "--forget",
		"--broker mqtt://b --store=postgres://u:secret@h/d":        "--store: the URL must not have a password",
		"--broker mqtt://b --store=postgres://h/d?password=secret": "--store: the URL must not have a password",
		"--broker mqtt://b --store=postgres://h/d?sslpassword=s":   "--store: the URL must not have a password",
		"--broker mqtt://b --store=postgresql://u:secret@h:port/d": "--store: invalid URL of a database",
		"--broker mqtt://b --store=mysql://h/d":                    "must start with postgres://",
		"--broker mqtt://b --unknown":                              "unknown flag: --unknown",
		"--broker mqtt://b --shutdown-delay-duration=-1s":          "ShutdownDelay: -1s",
	})
	for store, shared := range map[string]bool{
		"work-data": false, "postgres": false, "postgres://u@h/d": true, "postgresql:///d?service=works": true,
	} {
		o, err := parse([]string{"--broker", "mqtt://b", "--store", store})
		if err != nil || o.store != store || o.shared() != shared {
			t.Errorf("--store %s: %+v, %v; want shared %t", store, o, err, shared)
		}
	}
	o, err := parse([]string{"--broker", "mqtt://b", "--read-only", "--shutdown-delay-duration", "5s",
		"--secure-port", "6444", "--inventory-complete", "--forget", "a", "--forget", "b"})
	if err != nil {
		t.Fatal(err)
	}
	if !o.server.ReadOnly || o.server.ShutdownDelay != 5*time.Second || !o.complete || o.source != "hub" ||
		!slices.Equal(o.forget, []string{"a", "b"}) ||
		o.server.Recommended.SecureServing.BindPort != 6444 {
		t.Errorf("parse returns %+v, %+v", o, o.server)
	}
}
