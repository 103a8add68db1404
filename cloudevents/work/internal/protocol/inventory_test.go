// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// TestGap is the table of versions that prove that a store is an older copy.
func TestGap(t *testing.T) {
	loaded, written := &protocol.Gap{From: 10}, &protocol.Gap{From: 10, Before: 20}
	older := written.Next(30)
	for _, tc := range []struct {
		name   string
		gap    *protocol.Gap
		v      int64
		want   bool
		reason string
	}{
		{"checked", nil, 99, false, "the cluster has listed all that it holds"},
		{"old", loaded, 9, false, "this store gave it"},
		{"highest", loaded, 10, false, "the last that this store gave"},
		{"above", loaded, 11, true, "given after the store was copied"},
		{"above, after a write", written, 15, true, "given after the copy and before it was used again"},
		{"above the versions assigned since", written, 20, true, "this process assigned the version to a known work"},
		{"before an earlier process", older, 9, false, "the store had it"},
		{"between two processes", older, 15, true, "given after a copy that the earlier one used"},
		{"of an earlier process", older, 25, false, "the store had it when it was read again"},
		{"above two processes", older, 31, true, "given after the store was copied"},
		{"after a process that assigned no version", loaded.Next(12), 11, true,
			"the version that the agent showed is above the Store"},
		{"unknown cluster", &protocol.Gap{}, 1, true, "the store never gave that cluster a version"},
		{"question", &protocol.Gap{}, 0, false, "the agent does not hold the work"},
	} {
		if got := tc.gap.Has(tc.v); got != tc.want {
			t.Errorf("%s: %t, want %t: %s", tc.name, got, tc.want, tc.reason)
		}
	}
}

// TestGapsAreBounded: when two gaps are merged, no version leaves the gap.
func TestGapsAreBounded(t *testing.T) {
	gap := new(protocol.Gap).Next(0)
	inGap := map[int64]bool{}
	for i := int64(1); i < 100; i++ {
		gap.Before = 10*i + 5
		for v := 10*i - 9; v < 10*i+5; v++ {
			inGap[v] = gap.Has(v)
		}
		gap = gap.Next(10*i + 9)
		if len(gap.Older) > 8 {
			t.Fatalf("%d older gaps", len(gap.Older))
		}
	}
	for v, was := range inGap {
		if v < 990 && was && v%10 > 0 && v%10 < 5 && !gap.Has(v) {
			t.Errorf("%d was in the gap", v)
		}
	}
}

// TestInventory: unknown works are deleted only if no sign exists that another process created them
// or that this store lost them.
func TestInventory(t *testing.T) {
	for _, tc := range []struct {
		name      string
		inventory protocol.Inventory
		want      bool
	}{
		{"incomplete", protocol.Inventory{}, false},
		{"complete", protocol.Inventory{Complete: true}, true},
		{"older copy of the store", protocol.Inventory{Complete: true, Outdated: true}, false},
		{"another process was there", protocol.Inventory{Complete: true, Replaced: true}, false},
		{"another process is there", protocol.Inventory{Complete: true, Rival: true}, false},
	} {
		if got := tc.inventory.Whole(); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}

// TestProcessOrder: exactly one of two processes is the newer process, whichever process compares.
func TestProcessOrder(t *testing.T) {
	a := protocol.Process{Started: noon, Session: "a"}
	b := protocol.Process{Started: noon, Session: "b"}
	late := protocol.Process{Started: noon.Add(time.Second), Session: "0"}
	for _, pair := range [][2]protocol.Process{{a, b}, {a, late}, {b, late}} {
		if !pair[0].Before(pair[1]) || pair[1].Before(pair[0]) || pair[0].Before(pair[0]) {
			t.Errorf("%v and %v have no order", pair[0], pair[1])
		}
	}
	if !late.Credible(noon) || !late.Credible(noon.Add(-23*time.Hour)) || late.Credible(noon.Add(-24*time.Hour)) {
		t.Error("a start up to a day ahead is that of a wrong clock, one beyond is refused")
	}
}
