// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// TestParse checks that the hub and each agent have a transport of their own.
func TestParse(t *testing.T) {
	for _, args := range []string{"", "--broker mqtt://b:1883", "-broker=wss://b/mqtt"} {
		transports, err := parse(strings.Fields(args))
		if len(transports) != 3 || err != nil {
			t.Fatalf("%q: %v, %v", args, transports, err)
		}
		if transports[0] == transports[1] || transports[1] == transports[2] {
			t.Errorf("%q: a transport is shared", args)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"mine":                   `unknown argument "mine"`,
		"--no-such-flag":         "-no-such-flag",
		"--broker":               "--broker needs a value",
		"--broker=":              "--broker must not be empty",
		"--broker http://broker": "--broker: ",
	})
}

func TestUsage(t *testing.T) { commandtest.Usage(t, usage, "broker") }
