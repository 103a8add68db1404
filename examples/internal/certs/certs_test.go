// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"fmt"
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

// The tests of hub make and use certificates.
func TestFlags(t *testing.T) {
	commandtest.Refuses(t, func(args []string) (options, error) { return parse("hub", args) }, map[string]string{
		"--dir x":             "--name is required: the name of the hub",
		"--name https://x":    "must be a name or an IP address",
		"--name x:1":          "must be a name or an IP address",
		"--name x --dir=":     "--dir must not be empty",
		"--name x --source /": "--source",
	})
	commandtest.Usage(t, fmt.Sprintf(usage, "hub"), "dir", "name", "broker-name", "source")
}
