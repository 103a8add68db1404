// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// TestNextGeneration: the next version of a work in the profile ManifestBundle.
func TestNextGeneration(t *testing.T) {
	tests := []struct {
		name                      string
		generation, highest, want int64
		reason                    string
	}{
		{"create", 1, 0, 1, "nothing was used before"},
		{"update", 2, 1, 2, "the generation"},
		{"labels", 2, 2, 3, "the generation stays, but the agent must see it"},
		{"behind", 1, 5, 6, "the agent has 5 from before a restart"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := protocol.NextGeneration(tc.generation, tc.highest); got != tc.want {
				t.Errorf("got %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// flake returns a snowflake ID.
func flake(ms, node, step int64) int64 { return ms<<22 | node<<12 | step }

// TestNextSnowflake: sequence IDs increase, whatever the clock does, and have node 1.
func TestNextSnowflake(t *testing.T) {
	epoch := time.UnixMilli(1288834974657)
	tests := []struct {
		name   string
		last   int64
		now    time.Duration
		skip   int64
		want   int64
		reason string
	}{
		{"first", 0, 5 * time.Millisecond, 0, flake(5, 1, 0), "the time"},
		{"later", flake(5, 1, 9), 6 * time.Millisecond, 0, flake(6, 1, 0), "a new millisecond"},
		{"same millisecond", flake(5, 1, 9), 5 * time.Millisecond, 0, flake(5, 1, 10), "the next step"},
		{"clock behind", flake(7, 1, 0), 5 * time.Millisecond, 0, flake(7, 1, 1), "it never goes back"},
		{"steps exhausted", flake(7, 1, 4095), 7 * time.Millisecond, 0, flake(8, 1, 0), "4,096 a millisecond"},
		{"other node", flake(7, 3, 2), 7 * time.Millisecond, 0, flake(8, 1, 0), "greater, and comparable from then on"},
		{"node 0", flake(7, 0, 2), 7 * time.Millisecond, 0, flake(7, 1, 0), "greater, and comparable from then on"},
		{"skip", flake(7, 1, 2), 5 * time.Millisecond, 3, flake(10, 1, 0),
			"two processes that inherit one ID must not give the same"},
		{"no skip", flake(7, 1, 2), 8 * time.Millisecond, 3, flake(8, 1, 0), "the clock is ahead"},
		{"before the epoch", 0, -time.Hour, 0, flake(0, 1, 0), "clocks of tests"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := protocol.NextSnowflake(tc.last, epoch.Add(tc.now), tc.skip)
			if got != tc.want || got <= tc.last {
				t.Errorf("got %d after %d, want %d: %s", got, tc.last, tc.want, tc.reason)
			}
		})
	}
	// An ID captured from an agent of the OCM SDK.
	if got := protocol.NextSnowflake(0, time.UnixMilli(1288834974657+2123973893927473152>>22),
		0); got != 2123973893927473152 {
		t.Errorf("got %d, want the captured ID", got)
	}
}

// TestOnSpecBundle: specs of a source of the profile ManifestBundle are ordered by V, and by time
// where V does not decide.
func TestOnSpecBundle(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	has := func(state protocol.AgentState, n int64) protocol.AgentWork {
		return protocol.AgentWork{State: state, Version: v(n, ""), Time: noon, Seq: 5, Finalizers: state == protocol.Held}
	}
	event := func(n int64, at time.Duration) protocol.SpecEvent {
		return protocol.SpecEvent{Version: v(n, ""), NoUID: true, Bundle: true, Time: noon.Add(at)}
	}
	del := func(e protocol.SpecEvent) protocol.SpecEvent { e.Delete = true; return e }
	bare := func(e protocol.SpecEvent) protocol.SpecEvent { e.Delete, e.Bare = true, true; return e }
	knows := func(e protocol.SpecEvent) protocol.SpecEvent { e.StatusSeq = 6; return e }
	tests := []struct {
		name   string
		work   protocol.AgentWork
		event  protocol.SpecEvent
		want   protocol.AgentAction
		reason string
	}{
		{"unknown", unknown, event(1, 0), protocol.Create, "there are no sessions to ask with"},
		{"unknown, deleting", unknown, del(event(1, 0)), protocol.CreateDeleting,
			"an earlier process may have left resources"},
		{"unknown, bare deletion", unknown, bare(event(1, 0)), protocol.Ignore,
			"the answer to a list that has another source's work"},
		{"update", has(protocol.Held, 1), event(2, 1), protocol.Take, "greater and later"},
		{"greater, earlier", has(protocol.Held, 1), event(2, -1), protocol.Take,
			"the source raised V; its clock may be behind"},
		{"lower, later", has(protocol.Held, 5), event(1, 1), protocol.Take, "the source restarted its versions"},
		{"lower, earlier", has(protocol.Held, 5), event(1, -1), protocol.Answer, "late, or the source is behind"},
		{"equal, later", has(protocol.Held, 5), event(5, 1), protocol.Take, "the metadata may have changed"},
		{"equal, earlier", has(protocol.Held, 5), event(5, -1), protocol.Answer, "late"},
		{"duplicate", has(protocol.Held, 5), event(5, 0), protocol.Ignore, "the broker repeats"},
		{"duplicate with a higher sequence", has(protocol.Held, 5), knows(event(5, 0)), protocol.PublishStatus,
			"the sequence restarted"},
		{"unversioned update", has(protocol.Held, 0), event(0, 1), protocol.Take, "the time decides"},
		{"unversioned, late", has(protocol.Held, 0), event(0, -1), protocol.Answer, "the time decides"},
		{"equal, no time", has(protocol.Held, 5), protocol.SpecEvent{Version: v(5, ""), NoUID: true, Bundle: true},
			protocol.Ignore, "the event may be a duplicate"},
		{"deletion", has(protocol.Held, 2), del(event(2, 1)), protocol.MarkDeleting,
			"such a source does not raise V to delete"},
		{"bare deletion", has(protocol.Held, 2), bare(event(2, 1)), protocol.MarkDeleting,
			"the source does not know the work: it shall go"},
		{"deletion, tombstone", has(protocol.Tombstone, 2), del(event(2, 1)), protocol.RepeatGone, "gone was lost"},
		{"bare deletion, tombstone", has(protocol.Tombstone, 2), bare(event(2, 1)), protocol.RepeatGone, "gone was lost"},
		{"created again", has(protocol.Tombstone, 7), event(1, 1), protocol.Create, "it counts from 1 again"},
		{"late spec, tombstone", has(protocol.Tombstone, 7), event(6, -1), protocol.Answer,
			"the answer is that the work is gone"},
		{"created again, deleting", has(protocol.Deleting, 7), event(1, 1), protocol.KeepNext,
			"the cleanup is not cancelled"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := protocol.OnSpec(tc.work, tc.event); got != tc.want {
				t.Errorf("got action %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestOnStatusBundle: statuses of an agent of the profile ManifestBundle are checked against V and
// ordered by their sequence.
func TestOnStatusBundle(t *testing.T) {
	live := protocol.SourceWork{Phase: protocol.SourceActive, Version: v(3, "a"), CreateV: 2, Seq: 10}
	reported := live
	reported.Reported = true
	deleting := protocol.SourceWork{Phase: protocol.SourceDeleting, Version: v(4, "a"), CreateV: 2, DeleteV: 4, Seq: 10}
	done := deleting
	done.Phase = protocol.SourceGone
	plain := protocol.SourceWork{Phase: protocol.SourceActive, Seq: 10, Unversioned: true}
	status := func(n, seq int64) protocol.StatusEvent {
		return protocol.StatusEvent{Version: v(n, ""), Seq: seq, NoUID: true, Bundle: true}
	}
	gone := func(e protocol.StatusEvent) protocol.StatusEvent { e.Gone = true; return e }
	other := func(e protocol.StatusEvent) protocol.StatusEvent { e.Other = true; return e }
	tests := []struct {
		name     string
		work     protocol.SourceWork
		event    protocol.StatusEvent
		complete bool
		want     protocol.SourceActions
		reason   string
	}{
		{"status", live, status(3, 11), false, protocol.SourceActions{Accept: true, Confirmed: true}, "of this version"},
		{"status of the version before", live, status(2, 11), false, protocol.SourceActions{Accept: true},
			"the agent has this version"},
		{"late status", live, status(3, 10), false, protocol.SourceActions{Confirmed: true},
			"the sequence decides, not the time"},
		{"earlier incarnation", live, status(1, 11), false, protocol.SourceActions{}, "from before Create"},
		{"behind", live, status(5, 11), false, protocol.SourceActions{Raise: true, Accept: true},
			"the agent has more from before a restart"},
		{"of an incarnation before", live, other(status(3, 11)), false, protocol.SourceActions{Raise: true},
			"the source restarted its versions and reached the same number"},
		{"of an incarnation before, lower", live, other(status(2, 11)), false, protocol.SourceActions{Raise: true},
			"the agent may have the present number of that work too"},
		{"of an incarnation before, deleting", deleting, other(status(4, 11)), false,
			protocol.SourceActions{Accept: true, Confirmed: true}, "a deletion does not bring the time of creation"},
		{"given up", done, status(2, 11), false, protocol.SourceActions{Send: true, Accept: true},
			"only this status shows that the agent has the work"},
		{"given up, late", done, status(2, 10), false, protocol.SourceActions{Send: true},
			"at worst the agent reports gone again"},
		{"gone", deleting, gone(status(4, 11)), false, protocol.SourceActions{Finish: true}, "the deletion is done"},
		{"gone of a lower version", deleting, gone(status(3, 11)), false, protocol.SourceActions{},
			"of an earlier incarnation"},
		{"gone while live", live, gone(status(3, 11)), false, protocol.SourceActions{Raise: true},
			"a deletion from before a restart was carried out"},
		{"late gone while live", live, gone(status(3, 10)), false, protocol.SourceActions{}, "of an earlier incarnation"},
		{"gone of a lower version while live", live, gone(status(2, 11)), false, protocol.SourceActions{},
			"the agent gets this one after it"},
		{"gone of a lower version after a status", reported, gone(status(2, 11)), false, protocol.SourceActions{Raise: true},
			"another process deleted it"},
		{"late gone after a status", reported, gone(status(2, 10)), false, protocol.SourceActions{},
			"of an earlier incarnation"},
		{"unversioned", plain, status(0, 11), false, protocol.SourceActions{Accept: true, Confirmed: true},
			"the sequence decides"},
		{"unversioned, versioned before", plain, status(5, 11), false, protocol.SourceActions{Accept: true},
			"there is no version to raise"},
		{"unknown", protocol.SourceWork{}, status(3, 1), true, protocol.SourceActions{DeleteUnknown: true},
			"the inventory is complete, so it shall go"},
		{"unknown, incomplete", protocol.SourceWork{}, status(3, 1), false, protocol.SourceActions{},
			"the work may be created again"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnStatus(tc.work, tc.event, tc.complete)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOnListEntryBundleUnknown: the list of an agent contains works that are unknown to the source.
func TestOnListEntryBundleUnknown(t *testing.T) {
	entry := protocol.ListEntry{Version: v(3, ""), NoSource: true, Bundle: true}
	own := entry
	own.Own = true
	for _, tc := range []struct {
		name     string
		entry    protocol.ListEntry
		complete bool
		want     protocol.SourceActions
		reason   string
	}{
		{"own list", own, true, protocol.SourceActions{DeleteUnknown: true}, "the topic names the source"},
		{"own list, incomplete", own, false, protocol.SourceActions{}, "the work may be created again"},
		{"list for all", entry, true, protocol.SourceActions{AskStatus: true},
			"it may be another source's: its status goes to its own"},
		{"list for all, incomplete", entry, false, protocol.SourceActions{}, "the work may be created again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnListEntry(protocol.SourceWork{}, tc.entry, tc.complete)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestOnListEntryBundleDeleting: a deletion is sent whenever an agent lists the work.
func TestOnListEntryBundleDeleting(t *testing.T) {
	doomed := protocol.SourceWork{Phase: protocol.SourceDeleting, Version: v(3, "a"), DeleteV: 3, Reported: true}
	entry := protocol.ListEntry{Version: v(3, ""), NoSource: true, Bundle: true}
	want := protocol.SourceActions{Send: true}
	if diff := cmp.Diff(want, protocol.OnListEntry(doomed, entry, true)); diff != "" {
		t.Errorf("the agent may have V from an earlier process of the source (-want +got):\n%s", diff)
	}
}

// TestOnListEntryBundleUnreported: versions start at 1, so the list of an agent that has not
// reported on the work does not confirm it.
func TestOnListEntryBundleUnreported(t *testing.T) {
	for _, reported := range []bool{false, true} {
		w := protocol.SourceWork{Phase: protocol.SourceActive, Version: v(1, "a"), Reported: reported}
		entry := protocol.ListEntry{Version: v(1, ""), NoSource: true, Bundle: true}
		want := protocol.SourceActions{Send: !reported, Confirmed: reported}
		if diff := cmp.Diff(want, protocol.OnListEntry(w, entry, true)); diff != "" {
			t.Errorf("reported %t (-want +got):\n%s", reported, diff)
		}
	}
}

// TestOnListEntryUnversioned: an agent's list does not show the state of a work without versions,
// so the work is sent.
func TestOnListEntryUnversioned(t *testing.T) {
	w := protocol.SourceWork{Phase: protocol.SourceActive, Unversioned: true}
	for _, tc := range []struct {
		name   string
		entry  protocol.ListEntry
		want   protocol.SourceActions
		reason string
	}{
		{"held", protocol.ListEntry{NoSource: true}, protocol.SourceActions{Send: true, Confirmed: true},
			"it may have changed"},
		{"held with a version", protocol.ListEntry{Version: v(5, ""), NoSource: true}, protocol.SourceActions{Send: true},
			"there is no version to raise"},
		{"foreign", protocol.ListEntry{Foreign: true}, protocol.SourceActions{}, "another source's"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, protocol.OnListEntry(w, tc.entry, true)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
