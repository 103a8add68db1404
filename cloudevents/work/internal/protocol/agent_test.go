// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

func v(n int64, uid string) protocol.Version { return protocol.Version{V: n, UID: uid} }

var (
	unknown   = protocol.AgentWork{}
	tombstone = protocol.AgentWork{State: protocol.Tombstone, Version: v(10, "a"), Seq: 5}
	held      = protocol.AgentWork{State: protocol.Held, Version: v(10, "a"), Seq: 5, Finalizers: true}
	refused   = protocol.AgentWork{State: protocol.Held, Version: v(10, "a"), Seq: 5, Finalizers: true, Refused: true}
	bare      = protocol.AgentWork{State: protocol.Held, Version: v(10, "a"), Seq: 5}
	deleting  = protocol.AgentWork{State: protocol.Deleting, Version: v(10, "a"), Seq: 5, Finalizers: true}
	waiting   = protocol.AgentWork{State: protocol.Deleting, Version: v(10, "a"), NextV: 12, Finalizers: true}
)

// TestOnSpec is the decision table of the agent, row by row and column by column.
func TestOnSpec(t *testing.T) {
	spec := func(ver protocol.Version) protocol.SpecEvent { return protocol.SpecEvent{Version: ver} }
	mine := func(e protocol.SpecEvent) protocol.SpecEvent { e.SessionMine = true; return e }
	del := func(e protocol.SpecEvent) protocol.SpecEvent { e.Delete = true; return e }
	seq := func(e protocol.SpecEvent, n int64) protocol.SpecEvent { e.StatusSeq = n; return e }

	tests := []struct {
		name   string
		work   protocol.AgentWork
		event  protocol.SpecEvent
		want   protocol.AgentAction
		reason string
	}{
		{"spec, unknown, session mine", unknown, mine(spec(v(1, "a"))), protocol.Create,
			"the source has the session of this process, so the event is not older than the process"},
		{"spec, unknown, other session", unknown, spec(v(1, "a")), protocol.Ask,
			"it may be from before a deletion that this process never saw"},
		{"delete, unknown, session mine", unknown, del(mine(spec(v(1, "a")))), protocol.CreateDeleting,
			"an earlier process may have left resources"},
		{"delete, unknown, other session", unknown, del(spec(v(1, "a"))), protocol.Ask,
			"the work may have been created again since"},

		{"spec, tombstone, newer, session mine", tombstone, mine(spec(v(11, "b"))), protocol.Create, "created again"},
		{"spec, tombstone, newer, same uid", tombstone, mine(spec(v(11, "a"))), protocol.Create,
			"the source raised V because it has the work"},
		{"spec, tombstone, newer, other session", tombstone, spec(v(11, "b")), protocol.Ask,
			"it may be late, from a process whose clock was ahead"},
		{"delete, tombstone, newer", tombstone, del(spec(v(11, "b"))), protocol.RepeatGone,
			"the source waits for gone of this version"},
		{"delete, tombstone, same", tombstone, del(spec(v(10, "a"))), protocol.RepeatGone, "gone was lost"},
		{"spec, tombstone, same", tombstone, spec(v(10, "a")), protocol.Ignore, "late"},
		{"spec, tombstone, older", tombstone, spec(v(9, "a")), protocol.Answer,
			"the source is behind: the answer has the newer version"},
		{"spec, tombstone, equal V, other uid", tombstone, spec(v(10, "b")), protocol.Answer,
			"two incarnations with one V: the source must raise"},

		{"spec, held, newer", held, spec(v(11, "a")), protocol.Take, "an update"},
		{"spec, held, newer, other uid", held, spec(v(11, "b")), protocol.Take, "the source restarted without a store"},
		{"delete, held, newer", held, del(spec(v(11, "a"))), protocol.MarkDeleting, "its finalizers hold it"},
		{"delete, held, newer, no finalizer", bare, del(spec(v(11, "a"))), protocol.Remove, "nothing holds it"},
		{"delete, held, newer, other uid", held, del(spec(v(11, "b"))), protocol.MarkDeleting,
			"a tombstone has a uid of its own"},
		{"spec, held, same", held, spec(v(10, "a")), protocol.Answer, "the source has not received the last status"},
		{"spec, held, same, source has the sequence", held, seq(spec(v(10, "a")), 5), protocol.Confirm,
			"the source has no confirmation yet"},
		{"spec, held, same, source has a higher sequence", held, seq(spec(v(10, "a")), 6), protocol.PublishStatus,
			"the sequence restarted: the source would ignore the statuses of this process"},
		{"spec, refused, same", refused, spec(v(10, "a")), protocol.Take, "it was requested, as there is room for it now"},
		{"spec, refused, same, source has a higher sequence", refused, seq(spec(v(10, "a")), 6), protocol.Take,
			"the status that follows has a sequence above it"},
		{"spec, refused, older", refused, spec(v(9, "a")), protocol.Answer, "late"},
		{"delete, refused, newer", refused, del(spec(v(11, "a"))), protocol.MarkDeleting, "a deletion makes room"},
		{"spec, held, older", held, spec(v(9, "a")), protocol.Answer,
			"the source is behind, or the event is late: the answer has the newer version"},
		{"spec, held, equal V, other uid", held, spec(v(10, "b")), protocol.Answer, "two incarnations with one V"},
		{"delete, held, older", held, del(spec(v(9, "a"))), protocol.Answer, "it was revived since"},

		{"spec, deleting, newer", deleting, mine(spec(v(11, "b"))), protocol.KeepNext,
			"clean-up is not cancelled by a new incarnation"},
		{"spec, deleting, newer, other session", deleting, spec(v(11, "b")), protocol.Ask,
			"it may be late, from a process whose clock was ahead"},
		{"spec, deleting, newer than next", waiting, mine(spec(v(13, "c"))), protocol.KeepNext, "the newest wins"},
		{"spec, deleting, older than next", waiting, spec(v(11, "b")), protocol.Confirm, "the newest wins"},
		{"spec, deleting, same as next", waiting, spec(v(12, "c")), protocol.Confirm, "the source has no confirmation yet"},
		{"delete, deleting, newer", deleting, del(spec(v(11, "b"))), protocol.TakeDelete, "gone must name the newest"},
		{"delete, deleting, newer than next", waiting, del(spec(v(13, "c"))), protocol.TakeDelete,
			"the next was deleted in its turn"},
		{"delete, deleting, older than next", waiting, del(spec(v(11, "b"))), protocol.Confirm,
			"the next was created after it"},
		{"delete, deleting, same", deleting, del(spec(v(10, "a"))), protocol.Answer,
			"the source has not received the last status"},
		{"delete, deleting, same, source has the sequence", deleting, del(seq(spec(v(10, "a")), 5)), protocol.Confirm,
			"the source has no confirmation yet"},
		{"spec, deleting, same", deleting, seq(spec(v(10, "a")), 9), protocol.Confirm,
			"gone follows when the clean-up has ended"},
		{"spec, deleting, older", deleting, spec(v(9, "a")), protocol.Answer, "the answer has the newer version"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := protocol.OnSpec(tc.work, tc.event); got != tc.want {
				t.Errorf("got action %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestOnSpecWithoutUID: specs of an enhancement source are ordered by the times of their events,
// because its versions may start again.
func TestOnSpecWithoutUID(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	from := protocol.AgentWork{State: protocol.Held, Version: v(10, ""), Time: noon, Finalizers: true}
	next := protocol.AgentWork{State: protocol.Deleting, Version: v(10, ""), Time: noon, NextV: 12, NextTime: noon.Add(1),
		Finalizers: true}
	event := func(n int64, at time.Time, del bool) protocol.SpecEvent {
		return protocol.SpecEvent{Version: v(n, ""), NoUID: true, Time: at, Delete: del}
	}
	tests := []struct {
		name   string
		work   protocol.AgentWork
		event  protocol.SpecEvent
		want   protocol.AgentAction
		reason string
	}{
		{"unknown", unknown, event(1, noon, false), protocol.Create, "an enhancement source cannot name a session"},
		{"unknown delete", unknown, event(1, noon, true), protocol.CreateDeleting, "likewise"},
		{"later, lower V", from, event(1, noon.Add(1), false), protocol.Take, "the source's counter restarted"},
		{"earlier, higher V", from, event(11, noon.Add(-1), false), protocol.Answer, "late"},
		{"same time, higher V", from, event(11, noon, false), protocol.Take, "equal times give no order"},
		{"no time, higher V", from, event(11, time.Time{}, false), protocol.Take, "V decides"},
		{"no time, lower V", from, event(9, time.Time{}, false), protocol.Answer, "V decides"},
		{"same", from, event(10, noon, false), protocol.Ignore, "a duplicate"},
		{"newer than next by time", next, event(1, noon.Add(2), false), protocol.KeepNext, "the source's counter restarted"},
		{"older than next by time", next, event(13, noon, false), protocol.Ignore, "the newest wins"},
		{"delete with the V of the spec", from, event(10, noon, true), protocol.MarkDeleting,
			"an enhancement source need not raise V to delete"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := protocol.OnSpec(tc.work, tc.event); got != tc.want {
				t.Errorf("got action %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestOnHash: the statuses that an agent sends for the list of a source.
func TestOnHash(t *testing.T) {
	entry := func(uid, hash string) protocol.HashEntry { return protocol.HashEntry{UID: uid, Hash: hash} }
	last := func(e protocol.HashEntry, seq int64) protocol.HashEntry { e.StatusSeq = seq; return e }
	tests := []struct {
		name   string
		work   protocol.AgentWork
		entry  protocol.HashEntry
		want   protocol.AgentAction
		reason string
	}{
		{"unknown", unknown, entry("a", "h"), protocol.Ignore, "the list of works that follows shows its absence"},
		{"tombstone", tombstone, entry("a", "h"), protocol.RepeatGone, "gone for each listed tombstone"},
		{"equal", held, last(entry("a", "h"), 5), protocol.Ignore, "both hold the same"},
		{"equal, source ahead", held, last(entry("a", "h"), 6), protocol.Ignore, "the agent takes the sequence over"},
		{"equal, source behind", held, last(entry("a", "h"), 4), protocol.Answer, "it missed an acknowledgement"},
		{"equal, no UID", held, entry("", "h"), protocol.Ignore, "an enhancement source names no incarnation"},
		{"other hash", held, entry("a", "x"), protocol.PublishStatus, "it missed a status"},
		{"other incarnation", held, entry("b", "h"), protocol.PublishStatus, "it has not seen this one's"},
		{"deleting, other hash", deleting, entry("a", "x"), protocol.PublishStatus, "it missed a status"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := protocol.OnHash(tc.work, tc.entry, "h"); got != tc.want {
				t.Errorf("got action %d, want %d: %s", got, tc.want, tc.reason)
			}
		})
	}
}
