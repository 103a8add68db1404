// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/ruletest"
)

type edits = []ruletest.Edit

const (
	agentTable  = "internal/protocol/agent.go"
	sourceTable = "internal/protocol/source.go"
	simulation  = "./internal/simulation"
)

// rules are the rules of the protocol. Without a rule, the simulation must fail: the failure shows
// that the simulation covers the rule. A rule names another test if the schedules that need the
// rule are too rare for TestSimulation.
var rules = []ruletest.Rule{
	// Agent.
	{Name: "a delete counts only if it is newer", Edits: edits{
		{agentTable, "\tswitch order(w, e) {", "\tif e.Delete {\n\t\treturn onNewer(w, e)\n\t}\n\tswitch order(w, e) {"}}},
	{Name: "a spec counts only if it is newer", Edits: edits{
		{agentTable, "\tswitch order(w, e) {", "\tif !e.Delete {\n\t\treturn onNewer(w, e)\n\t}\n\tswitch order(w, e) {"}}},
	{Name: "tombstones", Edits: edits{
		{agentTable, "if w.State == Unknown {", "if w.State == Unknown || w.State == Tombstone {"}}},
	{Name: "a new spec does not cancel the clean-up", Edits: edits{
		{agentTable, "return KeepNext", "return Take"}}},
	{Name: "the spec that comes during the clean-up is created after it", Test: "TestNewWorkIsCreatedAfterCleanup",
		Edits: edits{
			{agentTable, "return KeepNext", "return Ignore"}}},
	{Name: "an equal spec is not applied again", Edits: edits{
		{"internal/agent/work.go", "equal := clientset.SameSpec(&obj.Spec, &spec.Work.Spec)", "equal := false"}}},
	{Name: "an adopted work's status is published", Edits: edits{
		{"internal/agent/work.go", "if (equal || had || w.Ahead != ahead) && (", "if (had || w.Ahead != ahead) && ("}}},
	{Name: "an old event is answered", Edits: edits{
		{agentTable, "\t\treturn onSame(w, e)\n\t}\n\treturn Answer", "\t\treturn onSame(w, e)\n\t}\n\treturn Ignore"}}},
	{Name: "the session of specs", Edits: edits{
		{agentTable, "case !e.SessionMine && !e.NoUID:", "case !e.SessionMine && !e.NoUID && e.Delete:"}}},
	{Name: "the session of specs of deleted works", Test: "TestLateSpecOfDeletedWork", Edits: edits{
		{agentTable, "case !e.NoUID && !e.SessionMine:", "case false:"}}},
	{Name: "the session of specs of works that are being deleted", Test: "TestLateSpecOfDeletedWork", Edits: edits{
		{agentTable, "case !(e.NoUID || e.SessionMine):", "case false:"}}},
	{Name: "the session of deletes", Test: "TestLateDeletionKeepsNewWork", Edits: edits{
		{agentTable, "case !e.SessionMine && !e.NoUID:", "case !e.SessionMine && !e.NoUID && !e.Delete:"}}},
	{Name: "an unknown work is cleaned up before it is gone", Edits: edits{
		{"internal/agent/work.go", "\t\tw.State = protocol.Deleting\n\t\tobj.DeletionTimestamp",
			"\t\tw.removeLocked(nil)\n\t\treturn\n\t}\n\tif spec.DeletionTimestamp != nil {\n\t\tobj.DeletionTimestamp"}}},
	{Name: "gone is said again", Edits: edits{
		{agentTable, "\tcase w.State == Tombstone && e.Delete:\n\t\treturn RepeatGone",
			"\tcase w.State == Tombstone && e.Delete:\n\t\treturn Ignore"},
		{agentTable, "\t\tcase e.Delete:\n\t\t\treturn RepeatGone", "\t\tcase e.Delete:\n\t\t\treturn Ignore"}}},
	{Name: "the version of a rejected spec is kept", Edits: edits{
		{"internal/agent/work.go",
			"\tw.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time\n\tif spec.Work == nil {\n\t\tswitch {",
			"\tif spec.Work != nil {\n\t\tw.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time\n\t}\n\tif spec.Work " +
				"== nil {\n\t\tswitch {"}}},
	{Name: "only new works extend the wait for an answer", Test: "TestListEndsWithoutRoomForReports", Edits: edits{
		{"internal/agent/sync.go", "resyncID == \"\" && a.endsAnswersLocked(source)", "false"},
		{"internal/agent/sync.go", "\tif isNew {\n", "\tif true {\n"}}},
	{Name: "an agent's generations never go down", Edits: edits{
		{"internal/agent/generation.go", "obj.Generation = max(obj.Generation, generationOf(spec))",
			"obj.Generation = generationOf(spec)"}}},
	{Name: "an agent's generations go up with each change", Edits: edits{
		{"internal/agent/generation.go", "\tif changed {\n\t\tobj.Generation++\n\t}\n", ""}}},
	{Name: "reports count generations as their source does", Edits: edits{
		{"internal/agent/generation.go", "if ahead == 0 {", "if true {"}}},
	{Name: "no report is about a rejected spec of another incarnation", Edits: edits{
		{"internal/agent/work.go", "case other:", "case other && false:"}}},
	{Name: "a list on each connection", Edits: edits{
		{"internal/agent/receive.go", "\tin.resync.all()\n",
			"\tif in.answers.resyncID == \"\" {\n\t\tin.resync.all()\n\t}\n"}}},
	{Name: "a list for a source that connects", Edits: edits{
		{"internal/agent/resync.go", "if m.ResyncID != \"\" && m.ResyncID == s.answered {", "if m.ResyncID != \"\" {"}}},
	{Name: "sequences in lists", Edits: edits{
		{"internal/agent/work.go", "Source: w.source.name, SequenceID: w.Seq}", "Source: w.source.name}"}}},
	{Name: "the echo of sequences", Edits: edits{
		{"internal/agent/report.go", "if seq > w.Seq {", "if false {"}}},
	{Name: "a refused spec is taken when it comes again", Test: "TestRefusedSpecArrivesWhenThereIsRoom", Edits: edits{
		{agentTable, "case w.State == Held && w.Refused && !e.Delete:", "case false:"}}},
	{Name: "a refused spec is confirmed", Test: "TestRefusedSpecsAreNotSentAgain", Edits: edits{
		{"internal/agent/budget.go", "if next || spec.Work == nil ||", "if true || spec.Work == nil ||"}}},
	{Name: "a refused spec that fits is requested", Test: "TestRefusedSpecArrivesWhenThereIsRoom", Edits: edits{
		{"internal/agent/work.go", "if w.source.refused[w] {", "if false {"}}},
	{Name: "a lost request for a refused spec is repaired", Test: "TestRefusedSpecArrivesWhenThereIsRoom", Edits: edits{
		{"internal/agent/work.go", "if w.source.refused[w] {", "if len(w.source.confirm) > 0 && w.source.refused[w] {"}}},
	{Name: "a list with a refused spec asks no question", Test: "TestForgottenRefusedSpecIsDeleted", Edits: edits{
		{"internal/agent/work.go", "e.Version = max(e.Version-1, 0)", "e.Version = 0"}}},
	{Name: "only refused specs that fit together are requested", Test: "TestOnlyFittingSpecsAreRequested", Edits: edits{
		{"internal/agent/budget.go", "\t\t\t\tfree -= more\n", ""}}},
	{Name: "specs leave room for reports", Test: "TestRefusalsAreReported", Edits: edits{
		{"internal/peer/budget.go", "if reserve > 0 {", "if false {"}}},
	{Name: "no first list without refused works", Test: "TestRefusedSpecsAreNotSentAgain", Edits: edits{
		{"internal/agent/sync.go", "if held && named && a.lacksLocked(name) {", "if false {"}}},

	// Source.
	{Name: "works go above a shown version once a minute", Test: "TestRivalsWithoutPresence", Edits: edits{
		{"internal/source/version.go", "case w.raises >= quickRaises && since < raiseInterval:", "case false:"}}},
	{Name: "gone counts for its incarnation only", Test: "TestLateGoneDoesNotEndNewDeletion", Edits: edits{
		{sourceTable, "case e.Gone && w.Phase.IsDeleting() && e.UID == w.UID:", "case e.Gone && w.Phase.IsDeleting():"}}},
	{Name: "gone counts for its deletion or a later one only", Test: "TestGoneOlderThanDeletion", Edits: edits{
		{sourceTable, "SourceActions{Finish: e.V >= w.DeleteV}", "SourceActions{Finish: true}"}}},
	{Name: "a status counts for its incarnation only", Edits: edits{
		{sourceTable, "Accept:    own && e.Seq > w.Seq,", "Accept:    e.Seq > w.Seq,"}}},
	{Name: "statuses have an order", Edits: edits{
		{sourceTable, "Accept:    own && e.Seq > w.Seq,", "Accept:    own,"}}},
	{Name: "versions rise above what agents show", Edits: edits{
		{"internal/protocol/version.go", "return peer.V > own.V || peer.V == own.V && peer.UID != own.UID", "return false"}}},
	{Name: "versions rise with labels", Edits: edits{
		{"internal/source/writes.go", "\t\tw.raiseLocked(next)\n\t}",
			"\t\tif next.Generation != current.Generation {\n\t\t\tw.raiseLocked(next)\n\t\t}\n\t}"}}},
	{Name: "no unknown work is deleted before the inventory is complete", Edits: edits{
		{sourceTable, "DeleteUnknown: complete && !e.Gone}", "DeleteUnknown: !e.Gone}"},
		{sourceTable, "DeleteUnknown: complete && !e.NoSource && e.V > 0,", "DeleteUnknown: !e.NoSource && e.V > 0,"}}},
	{Name: "no unknown work is deleted where the store is older than what its agent holds", Test: "TestRestoredBackup",
		Edits: edits{
			{"internal/protocol/inventory.go", "return v > g.From || ", "return "}}},
	{Name: "no unknown work is deleted while another process with the ID is there", Test: "TestRollingUpdate",
		Edits: edits{
			{"internal/protocol/inventory.go", "&& !i.Rival }", "}"}}},
	{Name: "no unknown work is deleted where a newer process with the ID was", Test: "TestNewerProcessCrashes",
		Edits: edits{
			{"internal/protocol/inventory.go", "&& !i.Replaced ", ""}}},
	{Name: "no unknown work is deleted before other processes could answer",
		Test: "TestLateOrLostPresence", Edits: edits{
			{"internal/source/inventory.go", "c.inventoryLocked().Whole() && c.suspects.clearsLocked(id)",
				"c.inventoryLocked().Whole()"}}},
	{Name: "a check counts for what was seen before it", Test: "TestOldProcessDetectsNewerProcess", Edits: edits{
		{"internal/source/inventory.go", "	u.byID[id] = suspect{check: c.presence.NextLocked()}\n\treturn false",
			"	u.byID[id] = suspect{check: c.presence.NextLocked()}\n\treturn c.presence.EndedLocked() > 0"}}},
	{Name: "no deletion is raised before other processes could answer", Test: "TestOlderProcessKeepsWorkOfNewerProcess",
		Edits: edits{
			{"internal/source/version.go", "return w.cluster.suspects.clearsLocked(w.id)", "return true"}}},
	{Name: "forgotten clusters keep their versions", Test: "TestRestartIsNoRestoredBackup", Edits: edits{
		{"internal/source/records.go", "c.highest, c.outdated, c.gap = f.Highest, f.Outdated, f.Gap", ""}}},
	{Name: "forgotten clusters keep that their store was outdated", Test: "TestForgetAfterRestoredBackup", Edits: edits{
		{"internal/source/removal.go", "Outdated: c.outdated, Forgotten: true}\n\tif c.gap != nil {",
			"Forgotten: true}\n\tif false {"}}},
	{Name: "the older of two processes does not write", Test: "TestRollingUpdate", Edits: edits{
		{"internal/source/inventory.go", "v.outranked, v.replaced = true, true", "v.replaced = true"}}},
	{Name: "unknown works are deleted when it is", Edits: edits{
		{sourceTable, "DeleteUnknown: complete && !e.Gone}", "DeleteUnknown: false}"},
		{sourceTable, "DeleteUnknown: complete && !e.NoSource && e.V > 0,", "DeleteUnknown: false,"}}},
	{Name: "works of other sources are left alone", Edits: edits{
		{"internal/source/lists.go", "foreign := e.Source != \"\" && e.Source != c.options.SourceID", "foreign := false"}}},
	{Name: "a part of a list is not the whole", Edits: edits{
		{"internal/source/lists.go", "if m.Scope != codec.ScopeAll || len(l.received) < l.count {",
			"if m.Scope != codec.ScopeAll {"}}},
	{Name: "a deleted work is remembered until it is gone", Edits: edits{
		{"internal/source/problem.go", "\tcase err == nil:\n",
			"\tcase err == nil:\n\t\tw.cluster.mu.Lock()\n" +
				"\t\tif w.phase.IsDeleting() {\n\t\t\tw.finishLocked()\n\t\t}\n\t\tw.cluster.mu.Unlock()\n"}}},
	{Name: "deletions are sent again", Edits: edits{
		{"internal/source/lists.go", "!ok && w.phase != protocol.SourceGone && peer.InPart",
			"!ok && !w.phase.IsDeleting() && peer.InPart"},
		{sourceTable, "Send:      e.V < w.V || again,", "Send:      e.V < w.V && !w.Phase.IsDeleting(),"},
		{sourceTable, "again := e.Bundle && (w.Phase.IsDeleting() || !w.Reported)", "again := false"}}},
	{Name: "a request for statuses on each connection", Edits: edits{
		{"internal/source/exchange.go", "\tscope := codec.ScopeLists\n",
			"\tif !x.traits.Bundle {\n\t\treturn\n\t}\n\tscope := codec.ScopeLists\n"}}},
	{Name: "a request for lists on each connection", Test: "TestRestoredBackupIsDetectedOnConnect", Edits: edits{
		{"internal/source/exchange.go", "\tx.engine.Enqueue(engine.LaneControl, x.requirement(scope, id))\n",
			"\tif scope == codec.ScopeAll {\n\t\tx.engine.Enqueue(engine.LaneControl, x.requirement(scope, id))\n\t}\n"}}},
	{Name: "only what differs is sent", Test: "TestBundleResyncSendsNoEqualWorks", Edits: edits{
		{sourceTable, "Send:      e.V < w.V || again,", "Send:      true,"},
		{sourceTable, "again := e.Bundle && (w.Phase.IsDeleting() || !w.Reported)", "again := false"}}},

	// Repair of silent losses.
	{Name: "a silent agent is asked for a digest", Test: "TestSilentLoss", Edits: edits{
		{"internal/source/digest.go", "silentAfter = 75 * time.Second", "silentAfter = time.Hour"}}},
	{Name: "a digest that differs is followed up", Test: "TestSilentLoss", Edits: edits{
		{"internal/source/digest.go",
			"\td.askAt = d.cluster.now().Add(digestDelay)\n\td.cluster.wakeLocked(d.askAt)\n", ""}}},
	{Name: "unconfirmed works are sent again", Test: "TestBundleSilentLoss", Edits: edits{
		{"internal/source/cluster.go", "\t\tnext = peer.Earliest(next, c.redeliverLocked(now))\n", ""}}},
	{Name: "only what had the time to be confirmed counts as lost", Test: "TestMassLossIsRepaired", Edits: edits{
		{"internal/source/delivery.go",
			"w != nil && peer.IsDue(time.Unix(0, w.sent).Add(resendAfter), now, resendAfter); w = w.next",
			"w != nil; w = w.next"}}},
	{Name: "the same version again is confirmed", Test: "TestSilentLoss", Edits: edits{
		{"internal/agent/receive.go", "act != protocol.Answer {", "act != protocol.Answer && act != protocol.Confirm {"}}},
	{Name: "an equal hash with a higher sequence is answered", Test: "TestLostStatusBeforeEqualStatus", Edits: edits{
		{agentTable, "case e.UID != \"\" && e.StatusSeq < w.Seq:", "case false:"}}},
	{Name: "an answer of which events are missing is asked for again", Test: "TestInitialSyncWaitsForCountedEvents",
		Edits: edits{
			{"internal/agent/sync.go", "due = a.askAgainLocked(name, answer, now)", "due = now.Add(slowestTry)"}}},
	{Name: "a part's absence counts only in its buckets", Test: "TestSilentLossWhileBusy", Edits: edits{
		{"internal/source/lists.go", "w.phase != protocol.SourceGone && peer.InPart(w.id, l.part)",
			"w.phase != protocol.SourceGone"}}},
	{Name: "a list shows what is not confirmed any more", Test: "TestNewAgentProcessConfirmsAgain", Edits: edits{
		{"internal/source/answer.go", "if w.confirmed { // the list", "if false { // the list"}}},
	{Name: "a list answers only the hashes that it was asked with", Test: "TestBundleSilentLoss", Edits: edits{
		{"internal/source/lists.go", " &&\n\t\t\t(w.named || !answersHashes)", ""}}},
	{Name: "a named source's end marker is waited for", Test: "TestInitialSync", Edits: edits{
		{"internal/agent/sync.go", "must := held && named && a.serves(name)",
			"must := false && held && named && a.serves(name)"}}},
	{Name: "few lists in a row are compared", Test: "TestContinuousListsAreComparedRarely", Edits: edits{
		{"internal/source/cluster.go", "return c.compares.Allow()", "return true"}}},
	{Name: "a clock that is set back does not stop comparisons", Test: "TestListAfterClockIsSetBack", Edits: edits{
		{"internal/source/cluster.go", "return c.compares.Allow()",
			"return c.compares.AllowN(c.now(), 1)"}}},
	{Name: "another list is asked for when one was not compared", Test: "TestContinuousListsAreComparedRarely",
		Edits: edits{
			{"internal/source/lists.go",
				"\t\tc.droppedLocked()\n\t\treturn peer.Unusable(peer.RefusedBudget, \"cluster %q lists",
				"\t\treturn peer.Unusable(peer.RefusedBudget, \"cluster %q lists"}}},

	// Peers without UIDs.
	{Name: "versions go on after a work that is gone, also in the next process", Test: "TestBundleLateDeletion",
		Edits: edits{
			{"internal/source/removal.go", "past: true}", "past: false}"}}},
	{Name: "the status of a bundle work that was never reported is asked for", Test: "TestBundleUnreportedWork",
		Edits: edits{
			{"internal/source/statuses.go", " || w.cluster.traits.Bundle && !w.bundle.Reported", ""}}},
	{Name: "a bundle work that was never reported is sent when its agent lists it", Test: "TestBundleUnreportedWork",
		Edits: edits{
			{sourceTable, "again := e.Bundle && (w.Phase.IsDeleting() || !w.Reported)",
				"again := e.Bundle && w.Phase.IsDeleting()"}}},
	{Name: "versions leave room for what an agent has not reported", Test: "TestBundleLateStatus", Edits: edits{
		{"internal/protocol/bundle.go", "const Unreported = 1000", "const Unreported = 0"}}},
	{Name: "a version goes above any status of another work", Test: "TestBundleLateStatus", Edits: edits{
		{"internal/protocol/bundle.go", "SourceActions{Raise: true}", "SourceActions{Raise: e.V >= w.V}"}}},
	{Name: "a work that another process deletes is created again", Test: "TestBundleDeletedByOlderProcess", Edits: edits{
		{"internal/protocol/bundle.go", "(w.Reported || e.V >= w.V)", "e.V >= w.V"}}},
	{Name: "a list shows the version that waits for the clean-up", Test: "TestListDuringCleanup", Edits: edits{
		{"internal/agent/work.go", "w.State == protocol.Deleting && w.Next != nil {", "false {"}}},
	{Name: "a work whose deletion has ended is deleted when its agent shows it",
		Test: "TestBundleAbandonedWorkHeldByFinalizer", Edits: edits{
			{"internal/protocol/bundle.go", "Send:      w.Phase == SourceGone,", "Send:      false,"}}},
	{Name: "events of a source without UIDs are ordered by time", Test: "TestEnhancementSimulation", Package: simulation,
		Edits: edits{
			{agentTable, "if e.NoUID && !e.Time.IsZero() && !w.Time.IsZero() {", "if false {"}}},
	{Name: "unknown works in a list without sources are asked about", Test: "TestUnknownWorkOfAgentWithoutUIDs", Edits: edits{
		{sourceTable, "AskStatus: complete && e.NoSource}", "AskStatus: false}"}}},
	{Name: "a status without UID of an unknown work is answered", Test: "TestEnhancementSimulation", Package: simulation,
		Edits: edits{
			{sourceTable, "DeleteUnknown: complete && !e.Gone}", "DeleteUnknown: complete && !e.Gone && !e.NoUID}"}}},
}

// TestRulesAreFound: the code of each rule exists. A change of such code must update the list of
// rules.
func TestRulesAreFound(t *testing.T) {
	for _, r := range rules {
		r.Without(t, ".")
	}
}
