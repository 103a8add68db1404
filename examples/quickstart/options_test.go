// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestParseRefuses(t *testing.T) {
	commandtest.Refuses(t, parse, map[string]string{
		"mine":           `unknown argument "mine"`,
		"--no-such-flag": "-no-such-flag",
		"--grpc=soon":    "-grpc",
	})
}

func TestUsage(t *testing.T) { commandtest.Usage(t, usage, "grpc") }
