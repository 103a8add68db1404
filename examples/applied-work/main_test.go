// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestFailures(t *testing.T) {
	commandtest.NeedsCluster(t, "applied-work", "install the CRD", run)
}
