// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

type actions = protocol.SourceActions

var (
	noon   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	none   = protocol.SourceWork{}
	live   = protocol.SourceWork{Phase: protocol.SourceActive, Version: v(10, "a"), Seq: 5, CreateV: 8, Time: noon}
	doomed = protocol.SourceWork{Phase: protocol.SourceDeleting, Version: v(12, "a"), Seq: 5, CreateV: 8, DeleteV: 12,
		Time: noon}
)

// TestOnStatus is the decision table of the source for statuses and gones.
func TestOnStatus(t *testing.T) {
	status := func(ver protocol.Version, seq int64) protocol.StatusEvent {
		return protocol.StatusEvent{Version: ver, Seq: seq}
	}
	gone := func(ver protocol.Version) protocol.StatusEvent { return protocol.StatusEvent{Version: ver, Gone: true} }
	tests := []struct {
		name     string
		work     protocol.SourceWork
		event    protocol.StatusEvent
		complete bool
		want     actions
		reason   string
	}{
		{"unknown", none, status(v(1, "a"), 1), false, actions{}, "the inventory is not complete: only V is remembered"},
		{"unknown, complete", none, status(v(1, "a"), 1), true, actions{DeleteUnknown: true}, "the work has no owner"},
		{"gone, unknown, complete", none, gone(v(1, "a")), true, actions{}, "there is nothing left to delete"},

		{"next", live, status(v(10, "a"), 6), true, actions{Accept: true, Confirmed: true}, "in order"},
		{"duplicate", live, status(v(10, "a"), 5), true, actions{Confirmed: true}, "the same status twice is one update"},
		{"late", live, status(v(10, "a"), 4), true, actions{Confirmed: true}, "state moves only forward"},
		{"of an earlier version", live, status(v(9, "a"), 6), true, actions{Accept: true},
			"the agent has not seen the update yet"},
		{"of another incarnation", live, status(v(9, "b"), 6), true, actions{}, "never shown"},
		{"greater V, same uid", live, status(v(11, "a"), 6), true, actions{Accept: true, Raise: true},
			"this store was rolled back"},
		{"greater V, other uid", live, status(v(11, "b"), 6), true, actions{Raise: true},
			"behind: an earlier process used greater numbers"},
		{"equal V, other uid", live, status(v(10, "b"), 6), true, actions{Raise: true}, "behind"},
		{"while deleting", doomed, status(v(10, "a"), 6), true, actions{Accept: true}, "the last words show too"},

		{"gone, deleting", doomed, gone(v(12, "a")), true, actions{Finish: true}, "done"},
		{"gone, deleting, of an earlier version", doomed, gone(v(11, "a")), true, actions{},
			"a repeated or late gone of an earlier deletion: the agent answers this one"},
		{"gone, deleting, of a later version", doomed, gone(v(13, "a")), true, actions{Finish: true},
			"the agent carried out a later deletion of this work"},
		{"gone, deleting, other uid", doomed, gone(v(9, "b")), true, actions{}, "a late gone of an earlier incarnation"},
		{"gone, deleting, other uid, ahead", doomed, gone(v(13, "b")), true, actions{Raise: true}, "behind"},
		{"gone, live, uid equal", live, gone(v(10, "a")), true, actions{Raise: true},
			"this store was rolled back to before the deletion"},
		{"gone, live, other uid", live, gone(v(9, "b")), true, actions{}, "a late gone of an earlier incarnation"},
		{"gone, live, other uid, ahead", live, gone(v(11, "b")), true, actions{Raise: true}, "behind"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnStatus(tc.work, tc.event, tc.complete)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOnStatusWithoutUID: an enhancement agent does not send incarnations. The source uses V at
// Create and at the deletion instead.
func TestOnStatusWithoutUID(t *testing.T) {
	status := func(n int64, at time.Time) protocol.StatusEvent {
		return protocol.StatusEvent{Version: v(n, ""), NoUID: true, Time: at}
	}
	gone := func(n int64) protocol.StatusEvent {
		return protocol.StatusEvent{Version: v(n, ""), NoUID: true, Gone: true}
	}
	tests := []struct {
		name   string
		work   protocol.SourceWork
		event  protocol.StatusEvent
		want   actions
		reason string
	}{
		{"later", live, status(10, noon.Add(1)), actions{Accept: true, Confirmed: true}, "in order"},
		{"same time", live, status(10, noon), actions{Accept: true, Confirmed: true}, "times may be whole seconds"},
		{"earlier", live, status(10, noon.Add(-1)), actions{Confirmed: true}, "late"},
		{"no time", live, status(10, time.Time{}), actions{Accept: true, Confirmed: true}, "nothing to order it by"},
		{"V of Create", live, status(8, noon.Add(1)), actions{Accept: true}, "of this incarnation"},
		{"V before Create", live, status(7, noon.Add(1)), actions{}, "of an earlier incarnation"},
		{"greater V", live, status(11, noon.Add(1)), actions{Accept: true, Raise: true}, "behind"},
		{"gone", doomed, gone(12), actions{Finish: true}, "of the deletion"},
		{"gone before the deletion", doomed, gone(11), actions{}, "of an earlier incarnation"},
		{"gone while live", live, gone(12), actions{}, "not deleted here"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnStatus(tc.work, tc.event, true)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOnListEntry is the decision table of the source for the works that an agent lists.
func TestOnListEntry(t *testing.T) {
	entry := func(ver protocol.Version, seq int64) protocol.ListEntry {
		return protocol.ListEntry{Version: ver, Seq: seq}
	}
	foreign, noUID := entry(v(1, "a"), 9), entry(v(10, ""), 0)
	foreign.Foreign, noUID.NoSource = true, true
	noUIDOld := noUID
	noUIDOld.V = 9
	tests := []struct {
		name     string
		work     protocol.SourceWork
		entry    protocol.ListEntry
		complete bool
		want     actions
		reason   string
	}{
		{"foreign", none, foreign, true, actions{}, "another source's"},
		{"foreign, known id", live, foreign, true, actions{}, "another source's"},
		{"unknown", none, entry(v(1, "a"), 0), false, actions{}, "the inventory is not complete"},
		{"unknown, complete", none, entry(v(1, "a"), 0), true, actions{DeleteUnknown: true}, "the work has no owner"},
		{"unknown, no UID", none, noUID, true, actions{AskStatus: true},
			"the work may be another source's: the status shows it"},
		{"unknown, no UID, not complete", none, noUID, false, actions{}, "the inventory is not complete"},
		{"equal", live, entry(v(10, "a"), 5), true, actions{Confirmed: true}, "nothing to do"},
		{"older", live, entry(v(9, "a"), 5), true, actions{Send: true}, "the agent missed an update"},
		{"older, other uid", live, entry(v(9, "b"), 5), true, actions{Send: true}, "the agent has an earlier incarnation"},
		{"newer", live, entry(v(11, "a"), 5), true, actions{Raise: true}, "behind"},
		{"equal V, other uid", live, entry(v(10, "b"), 5), true, actions{Raise: true}, "behind"},
		{"asked for, unknown", none, entry(v(0, ""), 0), true, actions{}, "the agent does not have the work"},
		{"smaller sequence", live, entry(v(10, "a"), 4), true, actions{Confirmed: true, AskStatus: true},
			"the agent lost its count: the request echoes ours"},
		{"smaller sequence of another incarnation", live, entry(v(9, "b"), 4), true, actions{Send: true},
			"a count of its own"},
		{"greater sequence", live, entry(v(10, "a"), 6), true, actions{Confirmed: true, AskStatus: true},
			"a status was missed"},
		{"deleting", doomed, entry(v(10, "a"), 5), true, actions{Send: true}, "the agent missed the deletion"},
		{"no UID, equal", live, noUID, true, actions{Confirmed: true}, "no uid to compare"},
		{"no UID, older", live, noUIDOld, true, actions{Send: true}, "the agent missed an update"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnListEntry(tc.work, tc.entry, tc.complete)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNext: numbers increase, whatever the clock does. They begin above the old numbers if the
// clock did not step back. Numbers more than a day ahead are ignored.
func TestNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<41).Draw(t, "ms")
		now := time.UnixMilli(ms)
		last := rapid.Int64Range(0, 1<<61).Draw(t, "last")
		got := protocol.Next(last, now)
		if got < ms<<20 || got <= last && last <= protocol.Horizon(now) || got > protocol.Horizon(now)+1 {
			t.Errorf("Next(%d, %d ms) = %d", last, ms, got)
		}
	})
}

// TestHorizon: the clock of a peer may be at most a day ahead, in both scales.
func TestHorizon(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		next   func(time.Time) int64
		bounds protocol.Bounds
	}{
		"unix": {func(at time.Time) int64 { return protocol.Next(0, at) }, protocol.BoundsAt(noon)},
		"snowflake": {func(at time.Time) int64 { return protocol.NextSnowflake(0, at, 0) },
			protocol.BundleBoundsAt(noon, 1<<31-1)},
	} {
		if n := tc.next(noon.Add(day - time.Second)); n > tc.bounds.Sequence {
			t.Errorf("%s: %d is beyond %d, and less than a day ahead", name, n, tc.bounds.Sequence)
		}
		if n := tc.next(noon.Add(day + time.Second)); n <= tc.bounds.Sequence {
			t.Errorf("%s: %d is within %d, and more than a day ahead", name, n, tc.bounds.Sequence)
		}
		if seq, at := tc.bounds.Heal(1<<62, noon.Add(2*day)); seq != 0 || !at.IsZero() {
			t.Errorf("%s: healed to %d, %s", name, seq, at)
		}
	}
}

// TestBehind: of two peers with different versions, exactly the peer with the smaller V is behind.
// With equal V both are behind, so the first peer that notices raises its version.
func TestBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Custom(func(t *rapid.T) protocol.Version {
			return v(rapid.Int64Range(0, 3).Draw(t, "v"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid"))
		})
		a, b := version.Draw(t, "a"), version.Draw(t, "b")
		switch {
		case a == b:
			if a.Behind(b) {
				t.Errorf("%v is behind itself", a)
			}
		case !a.Behind(b) && !b.Behind(a):
			t.Errorf("%v and %v differ and neither is behind", a, b)
		case a.V != b.V && a.Behind(b) == b.Behind(a):
			t.Errorf("%v and %v are both behind", a, b)
		}
	})
}
