// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"os"
	"strings"
	"testing"
)

// rule is a rule of the protocol, and how to take it out of the code. Without it, a simulation must fail: that shows
// that the simulation looks at what the rule is there for. TestRemovedRules does so, on a copy of the sources, so
// nothing in them knows of it; see rules_removed_test.go.
type rule struct {
	name  string
	edits []edit
	// test is the test that must fail, TestSimulation where there is none; it is a directed one where the schedules that
	// need the rule are too rare for a simulation.
	test string
}

// edit replaces the only place in a file where old is.
type edit struct{ file, old, new string }

const (
	agentTable  = "internal/protocol/agent.go"
	sourceTable = "internal/protocol/source.go"
)

var rules = []rule{
	// Agent.
	{name: "a delete counts only if it is newer", edits: []edit{
		{agentTable, "\tswitch order(w, e) {", "\tif e.Delete {\n\t\treturn onNewer(w, e)\n\t}\n\tswitch order(w, e) {"}}},
	{name: "a spec counts only if it is newer", edits: []edit{
		{agentTable, "\tswitch order(w, e) {", "\tif !e.Delete {\n\t\treturn onNewer(w, e)\n\t}\n\tswitch order(w, e) {"}}},
	{name: "graves", edits: []edit{
		{agentTable, "if w.State == Unknown {", "if w.State == Unknown || w.State == Grave {"}}},
	{name: "a new spec does not cancel the clean-up", edits: []edit{
		{agentTable, "return KeepNext", "return Take"}}},
	{name: "the spec that comes during the clean-up is created after it", edits: []edit{
		{agentTable, "return KeepNext", "return Ignore"}}},
	{name: "an equal spec is not applied again", edits: []edit{
		{"agent_work.go", "equal := sameSpec(&obj.Spec, &spec.Work.Spec)", "equal := false"}}},
	{name: "an adopted work's status is published", edits: []edit{
		{"agent_work.go", "if (equal || had) && (", "if had && ("}}},
	{name: "an old event is answered", edits: []edit{
		{agentTable, "\t\treturn onSame(w, e)\n\t}\n\treturn Answer", "\t\treturn onSame(w, e)\n\t}\n\treturn Ignore"}}},
	{name: "the session of specs", edits: []edit{
		{agentTable, "case !e.SessionMine && !e.Strict:", "case !e.SessionMine && !e.Strict && e.Delete:"}}},
	{name: "the session of deletes", test: "TestLateDelete", edits: []edit{
		{agentTable, "case !e.SessionMine && !e.Strict:", "case !e.SessionMine && !e.Strict && !e.Delete:"}}},
	{name: "an unknown work is cleaned up before it is gone", edits: []edit{
		{"agent_work.go", "\t\tw.state = protocol.Deleting\n\t\tobj.DeletionTimestamp", "\t\tw.bury()\n\t\treturn\n\t}\n\tif spec.DeletionTimestamp != nil {\n\t\tobj.DeletionTimestamp"}}},
	{name: "gone is said again", edits: []edit{
		{agentTable, "\tcase w.State == Grave && e.Delete:\n\t\treturn RepeatGone", "\tcase w.State == Grave && e.Delete:\n\t\treturn Ignore"},
		{agentTable, "\t\tif e.Delete {\n\t\t\treturn RepeatGone", "\t\tif e.Delete {\n\t\t\treturn Ignore"}}},
	{name: "the version of a rejected spec is kept", edits: []edit{
		{"agent_work.go", "\tw.uid, w.version, w.time = spec.UID, spec.Version, spec.Time\n\tif spec.Work == nil {\n\t\tif w.Object == nil {",
			"\tif spec.Work != nil {\n\t\tw.uid, w.version, w.time = spec.UID, spec.Version, spec.Time\n\t}\n\tif spec.Work == nil {\n\t\tif w.Object == nil {"}}},
	{name: "a list on each connection", edits: []edit{
		{"agent_receive.go", "{ (*Agent)(h).resync() }", "{\n\tif a := (*Agent)(h); a.sync.resyncID == \"\" {\n\t\ta.resync()\n\t}\n}"}}},
	{name: "a list for a source that connects", edits: []edit{
		{"agent_resync.go", "if m.ResyncID != \"\" && m.ResyncID == s.answered {", "if m.ResyncID != \"\" {"}}},
	{name: "sequences in lists", edits: []edit{
		{"agent_resync.go", "Source: w.source.name, SequenceID: w.seq}", "Source: w.source.name}"}}},
	{name: "questions outlive older answers", test: "TestDeletionBeforeLateAnswer", edits: []edit{
		{"agent_resync.go", "case w.version < version:", "case false:"}}},
	{name: "the echo of sequences", edits: []edit{
		{"agent_work.go", "if seq = min(seq, maxVersion); seq > w.seq {", "if seq = min(seq, maxVersion); false {"}}},

	// Source.
	{name: "gone counts for its incarnation only", test: "TestLateGone", edits: []edit{
		{sourceTable, "case e.Gone && w.Deleting && e.UID == w.UID:", "case e.Gone && w.Deleting:"}}},
	{name: "a status counts for its incarnation only", edits: []edit{
		{sourceTable, "Accept:    own && e.Seq > w.Seq,", "Accept:    e.Seq > w.Seq,"}}},
	{name: "statuses have an order", edits: []edit{
		{sourceTable, "Accept:    own && e.Seq > w.Seq,", "Accept:    own,"}}},
	{name: "versions rise above what agents show", edits: []edit{
		{"internal/protocol/version.go", "return peer.V > own.V || peer.V == own.V && peer.UID != own.UID", "return false"}}},
	{name: "versions rise with labels", edits: []edit{
		{"source_writes.go", "\t\ts.raise(w, next)\n\t}", "\t\tif next.Generation != current.Generation {\n\t\t\ts.raise(w, next)\n\t\t}\n\t}"}}},
	{name: "no unknown work is deleted before the inventory is complete", edits: []edit{
		{sourceTable, "Bury: complete && !e.Gone}", "Bury: !e.Gone}"},
		{sourceTable, "Bury: complete && !e.Strict && e.V > 0}", "Bury: !e.Strict && e.V > 0}"}}},
	{name: "unknown works are deleted when it is", edits: []edit{
		{sourceTable, "Bury: complete && !e.Gone}", "Bury: false}"},
		{sourceTable, "Bury: complete && !e.Strict && e.V > 0}", "Bury: false}"}}},
	{name: "works of other sources are left alone", edits: []edit{
		{"source_resync.go", "foreign := e.Source != \"\" && e.Source != s.options.SourceID", "foreign := false"}}},
	{name: "a part of a list is not the whole", edits: []edit{
		{"source_resync.go", "if m.Scope != codec.ScopeAll || len(l.received) < l.count {", "if m.Scope != codec.ScopeAll {"}}},
	{name: "a deleted work is remembered until it is gone", edits: []edit{
		{"source_problem.go", "\tcase err == nil:\n",
			"\tcase err == nil:\n\t\tw.source.store.Lock()\n" +
				"\t\tif w.deleting {\n\t\t\tw.source.finish(w)\n\t\t}\n\t\tw.source.store.Unlock()\n"}}},
	{name: "deletions are sent again", edits: []edit{
		{"source_resync.go", "!ok && !w.gone {", "!ok && !w.gone && !w.deleting {"},
		{sourceTable, "Send:      e.V < w.V || again,", "Send:      e.V < w.V && !w.Deleting,"},
		{sourceTable, "again := e.Bundle && w.Deleting", "_ = e.Bundle"}}},
	{name: "a request for statuses on each connection", edits: []edit{
		{"source_resync.go", "\tscope := codec.ScopeLists\n", "\tif !s.traits.Strict {\n\t\treturn\n\t}\n\tscope := codec.ScopeLists\n"}}},
	{name: "a request for lists on each connection", edits: []edit{
		{"source_resync.go", "\tid := uuid.NewString()\n\ts.request(&codec.StatusResync{", "\tid := uuid.NewString()\n\tif scope == codec.ScopeAll {\n\t\ts.request(&codec.StatusResync{"},
		{"source_resync.go", "\t\tScope:     scope,\n\t\tBroadcast: true,\n\t})", "\t\tScope:     scope,\n\t\tBroadcast: true,\n\t})\n\t}"}}},
	{name: "only what differs is sent", edits: []edit{
		{sourceTable, "Send:      e.V < w.V || again,", "Send:      true,"},
		{sourceTable, "again := e.Bundle && w.Deleting", "_ = e.Bundle"}}},

	// Strict peers.
	{name: "versions go on after a work that is gone, also in the next process", test: "TestBundleLateDeletion", edits: []edit{
		{"source_strict.go", "past: true}", "past: false}"}}},
	{name: "a strict list tells what comes after a deletion", test: "TestBundleListOfLeaving", edits: []edit{
		{"agent_resync.go", "w.state == protocol.Deleting && w.next != nil {", "false {"}}},
	{name: "a work whose deletion has ended is deleted when its agent shows it", test: "TestBundleForgottenHeld", edits: []edit{
		{"internal/protocol/bundle.go", "Send:      w.Done,", "Send:      false,"}}},
	{name: "events of a strict source are ordered by time", test: "TestStrictSimulation", edits: []edit{
		{agentTable, "if e.Strict && !e.Time.IsZero() && !w.Time.IsZero() {", "if false {"}}},
	{name: "a strict agent's status of an unknown work is answered", test: "TestStrictSimulation", edits: []edit{
		{sourceTable, "Bury: complete && !e.Gone}", "Bury: complete && !e.Gone && !e.Strict}"}}},
}

// without applies the edits of a rule to copies of the sources, by file.
func (r rule) without(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range r.edits {
		text, ok := out[e.file]
		if !ok {
			data, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Errorf("%s: %s has %d times what removes the rule, not once:\n%s", r.name, e.file, n, e.old)
		}
		out[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return out
}

// TestRulesAreFound: who changes a line that is a rule of the protocol tells the list of rules where it is now.
func TestRulesAreFound(t *testing.T) {
	for _, r := range rules {
		r.without(t)
	}
}
