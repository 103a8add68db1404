// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"fmt"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// TestAccountIsBounded: an account is bounded alone and together with the other accounts.
func TestAccountIsBounded(t *testing.T) {
	b := &peer.Budget{PerPeer: 100, Total: 150, Options: "SourceOptions", Peer: "MaxClusterBytes"}
	one, two := &peer.Account{Budget: b}, &peer.Account{Budget: b}
	if one.Charge(101) || !one.Charge(100) || one.Charge(1) {
		t.Errorf("the first account has %d of 100 bytes", one.Used())
	}
	expectFull(t, one, "no room within SourceOptions.MaxClusterBytes (100 bytes)")
	if two.Charge(51) || !two.Charge(50) || two.HasRoom(1) {
		t.Errorf("the second account has %d bytes, all have %d of 150", two.Used(), b.Used())
	}
	expectFull(t, two, "no room within SourceOptions.MaxBytes (150 bytes)")
	if one.Set(100, 20); !two.HasRoom(50) || one.Used() != 20 {
		t.Errorf("after a smaller record: the first account has %d bytes", one.Used())
	}
	if one.Allow(1000); !one.HasRoom(1080) || two.HasRoom(51) {
		t.Error("an allowance must raise the bounds of its account and of all, and of no other account")
	}
}

func expectFull(t *testing.T, a *peer.Account, want string) {
	t.Helper()
	if got := fmt.Sprint(a.ErrFull()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSpecsLeaveRoomForReports: specs leave a sixteenth of the bounds to other records.
func TestSpecsLeaveRoomForReports(t *testing.T) {
	a := &peer.Account{Budget: &peer.Budget{PerPeer: 1600, Total: 1600}}
	if a.ChargeSpec(1501) || !a.ChargeSpec(1500) || a.ChargeSpec(1) {
		t.Errorf("specs have %d bytes", a.Used())
	}
	if !a.ChargeExcept(50, peer.ReportReserve) || a.ChargeExcept(1, peer.ReportReserve) || !a.Charge(50) {
		t.Errorf("with reports and requests %d bytes are charged", a.Used())
	}
}
