// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package interop_test

import "testing"

// TestInterop says where its siblings are.
func TestInterop(t *testing.T) {
	t.Skip("the OCM SDK v1.3.0 has a data race when it reconnects (its MQTT transport makes new channels while the old receiver may read them): make test runs these tests without the race detector")
}
