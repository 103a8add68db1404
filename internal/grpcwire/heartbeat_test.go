// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestHeartbeatIsNoEvent checks that a heartbeat is recognized, and is not a CloudEvent.
func TestHeartbeatIsNoEvent(t *testing.T) {
	b := grpcwire.AppendHeartbeat(nil, "1")
	if !grpcwire.IsHeartbeat(b) {
		t.Error("a heartbeat is not recognized")
	}
	if e, err := grpcwire.ParseEvent(b); err == nil {
		t.Errorf("a heartbeat is the event %s", e)
	}
	other, err := grpcwire.AppendEvent(nil, event())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, {0xff}, other, b[:len(b)-1]} {
		if grpcwire.IsHeartbeat(b) {
			t.Errorf("%q is a heartbeat", b)
		}
	}
}
