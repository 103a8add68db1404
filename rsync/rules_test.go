// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/ruletest"
)

type edits = []ruletest.Edit

// none is a condition that is always true. It replaces a removed condition.
const none = `store.Absent("/none/")`

// rules lists the promises of the engine and the conditions of its transactions (doc_durable.go).
var rules = []ruletest.Rule{
	// Queueing.
	{Name: "an event and the active record are one transaction", Test: "TestEnqueueWritesActiveRecord", Edits: edits{
		{"enqueue.go", `encode(tail{Next: t.Next + 1})), putActive(id)}`, `encode(tail{Next: t.Next + 1}))}`},
		{"enqueue.go", "		if result.Succeeded {\n			e.metrics",
			"		if result.Succeeded {\n			_, _ = e.txn(ctx, nil, []store.Op{putActive(id)})\n			e.metrics"}}},
	{Name: "queueing needs the tail that was read", Test: "TestHistoriesAreLinearizable", Edits: edits{
		{"enqueue.go", "compares := []store.Compare{store.Unchanged(kv), ", "compares := []store.Compare{" + none + ", "}}},
	{Name: "nothing is queued in a stopped context", Test: "TestStop", Edits: edits{
		{"enqueue.go", "store.Unchanged(kv), store.Absent(stopKey(id))}", "store.Unchanged(kv), " + none + "}"}}},
	{Name: "an idempotency key queues once", Test: "TestIdempotencyKey", Edits: edits{
		{"enqueue.go", "compares = append(compares, store.Absent(key))", "compares = append(compares, " + none + ")"}}},
	{Name: "an idempotency key is of one call", Test: "TestIdempotencyKeyOfAnotherCall", Edits: edits{
		{"enqueue.go", "if before.Event != element.Event ||", "if before.Seq == 0 && before.Event != element.Event &&"}}},

	// Owners.
	{Name: "the fence", Test: "TestLateWritesAfterLeaseAreRejected", Edits: edits{
		{"run.go", "[]store.Compare{r.session.fence(), ", "[]store.Compare{" + none + ", "}}},
	{Name: "the record is as it was read", Test: "TestTwoEnginesCompete", Edits: edits{
		{"run.go", "r.session.fence(), store.Unchanged(r.img.stateKV)}", "r.session.fence(), " + none + "}"}}},
	{Name: "only from owners that are gone", Test: "TestTwoEnginesCompete", Edits: edits{
		{"run.go", "all = append(all, store.Absent(engineKey(owner)))", "_ = owner"}}},
	{Name: "all contexts are looked at when an engine ends", Test: "TestOwnerEndsDuringScan", Edits: edits{
		{"session_watch.go", "if s.owned[id] || s.homeLocked(id) == s.name {", "if !s.owned[id] && s.runs[id] == nil {"},
		{"session.go", "			s.failed(id, false)\n			s.drop(r)",
			"			s.failed(id, false)\n			s.engine.sleep(s.ctx, time.Millisecond)\n			s.drop(r)"}}},
	{Name: "only the home reads a context", Test: "TestEventCostsTheSameWithManyEngines", Edits: edits{
		{"session_watch.go", "	return s.owned[id] || s.homeLocked(id) == s.name\n}\n\n// mine",
			"	return true\n}\n\n// mine"}}},
	{Name: "an owner works on what has another home", Test: "TestEnginesComeAndGo", Edits: edits{
		{"session_watch.go", "	return s.owned[id] || s.homeLocked(id) == s.name\n}\n\n// mine",
			"	return s.homeLocked(id) == s.name\n}\n\n// mine"}}},
	{Name: "a session scans when it first sees itself", Test: "TestSessionSeesOwnRecordLast", Edits: edits{
		{"session_watch.go", "scan = scan || !c.there || c.name == s.name && !c.again", "scan = scan || !c.there"}}},
	{Name: "a session scans when another one ends", Test: "TestEnginesComeAndGo", Edits: edits{
		{"session_watch.go", "scan = scan || !c.there || c.name == s.name && !c.again",
			"scan = scan || c.name == s.name && !c.again"}}},
	{Name: "what may be elsewhere is looked at by its record", Test: "TestJoinAmongWaitingContexts", Edits: edits{
		{"session_watch.go", "	return s.foreign[id]\n", "	return false\n"}}},
	{Name: "a context goes home between events", Test: "TestJoinTakesQueuedEvents", Edits: edits{
		{"run.go", "	case r.session.goesHome(r.id):\n", "	case false:\n"}}},
	{Name: "and its home is told", Test: "TestEnginesComeAndGo", Edits: edits{
		{"run.go", "transaction{ops: []store.Op{putActive(r.id)}}", "transaction{}"}}},
	{Name: "an owner sees a claim of its own that was late", Test: "TestClaimArrivesLate", Edits: edits{
		{"run.go", "	if !now.Exists() || json.Unmarshal(", "	if true || json.Unmarshal("}}},
	{Name: "what is in progress is resumed", Test: "TestCrashAtEveryWrite", Edits: edits{
		{"run_next.go", "if r.img.record.Current != 0 {",
			"if r.img.record.Current != 0 && r.img.record.Owner == r.session.name {"}}},
	{Name: "it is resumed in any state", Test: "TestCrashAtEveryWrite", Edits: edits{
		{"run_next.go", "	row, _ := r.engine.options.Transitions.Of(e.Event, r.img.record.State)\n	return",
			"	row, ok := r.engine.options.Transitions.Of(e.Event, r.img.record.State)\n	if !ok {\n		return r.refuse(ctx, e, " +
				"ReasonInvalidState, \"\")\n	}\n	return"}}},
	{Name: "what is stored of a cluster stays", Test: "TestStoredResultStaysAfterCrash",
		Edits: edits{{"run_next.go", "			t.recall(s)\n", "			_ = s\n"}}},
	{Name: "Healthy fails while the store refuses writes", Test: "TestHealthyFailsWhileWritesAreRefused", Edits: edits{
		{"engine.go", "return s.refusal()", "return nil"}}},

	// Events.
	{Name: "an event must be valid for the state", Test: "TestInvalidState", Edits: edits{
		{"run_next.go", "	if !valid {\n		return r.refuse(ctx, e, ReasonInvalidState, \"%s cannot",
			"	if false && !valid {\n		return r.refuse(ctx, e, ReasonInvalidState, \"%s cannot"}}},
	{Name: "no event begins after Stop", Test: "TestStopWhileEventBegins", Edits: edits{
		{"run_next.go", "compares := []store.Compare{store.Absent(stopKey(r.id)), ", "compares := []store.Compare{" + none +
			", "}}},
	{Name: "nothing is skipped after ClearStop", Test: "TestClearStopWhileEventIsSkipped", Edits: edits{
		{"run_next.go", "ReasonStopped, store.Unchanged(stop))", "ReasonStopped)\n			_ = stop"}}},
	{Name: "Stop is seen at once", Test: "TestStopLatency", Edits: edits{
		{"session_watch.go", "c.there && s.isActive(c.name)", "false"}}},
	{Name: "Terminate skips what is queued before it", Test: "TestTerminatePreempts", Edits: edits{
		{"run_next.go", "i := len(pending) - 1; i > 0; i--", "i := len(pending) - 1; i > len(pending); i--"}}},
	{Name: "only where it is valid", Test: "TestInvalidTerminateSkipsNothing", Edits: edits{
		{"run_next.go", "\tif _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid {",
			"\tif _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid || true {"}}},
	{Name: "Terminate cuts waits only where it is valid", Test: "TestInvalidTerminateEndsNoWait", Edits: edits{
		{"run_next.go", "else if _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid {",
			"else if _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid || true {"}}},
	{Name: "Terminate lets clusters that answer finish", Test: "TestTerminatePreempts", Edits: edits{
		{"cluster.go", "		if c.down && o.cancel != nil {", "		if o.cancel != nil {"}}},
	{Name: "the active record goes only with an empty queue", Test: "TestEnqueueWhileLastEventEnds", Edits: edits{
		{"run.go", "transaction{[]store.Compare{store.Unchanged(r.img.tailKV)}, ", "transaction{nil, "}}},

	{Name: "a status follows after many changes", Test: "TestStatusFollowsLongWaits", Edits: edits{
		{"run_notes.go", "	return max(n.last.Add(noteInterval).Sub(now), 0)\n", "	return 1 << 62\n"}}},
	{Name: "and is not written at each", Test: "TestStatusFollowsLongWaits", Edits: edits{
		{"run_notes.go", "	if n.count < maxNotes {\n", "	if n.count >= 0 {\n"}}},

	// Between events.
	{Name: "an observation needs the record that was read", Test: "TestEventInvalidatesObservation", Edits: edits{
		{"observer_write.go", "	if c.view == nil || !c.view.same(v) {\n", "	if false {\n"},
		{"observer_write.go", "o.session.fence(), store.Unchanged(c.view.stateKV), ", "o.session.fence(), " + none + ", "},
		{"observer_load.go", "	c.view = nil\n	if !kv.Exists()", "	if !kv.Exists()"}}},
	{Name: "only the home observes a context", Test: "TestObservationCostsTheSameWithManyEngines", Edits: edits{
		{"observer.go", "if is && o.session.isHome(c.name) {", "if is {"},
		{"observer.go", "if !o.session.isHome(id) {", "if false {"}}},
	{Name: "observers look when engines come and go", Test: "TestObserversComeAndGo", Edits: edits{
		{"session_watch.go", "	s.observer.rehome()\n", ""}}},
	{Name: "what has not changed is not written", Test: "TestObservationCostsTheSameWithManyEngines", Edits: edits{
		{"observer_write.go", "len(t.ops) == 0 && next.same(&before.observed)", "false"}}},
	{Name: "a cluster is read once a second", Test: "TestObservationOfBusyCluster", Edits: edits{
		{"observer.go", "	if at.Before(c.earliest) {\n", "	if false {\n"}}},
	{Name: "drift is healed only with ObserveHeal", Test: "TestDriftIsReported", Edits: edits{
		{"observer_write.go", "options.Observe == ObserveHeal {", "options.Observe > 0 {"}}},
	{Name: "what is undone is healed later", Test: "TestContestedDrift", Edits: edits{
		{"observe_heal.go", "o.Tries > 0 && at.After(now) {", "false && at.After(now) {"}}},
	{Name: "and not without end", Test: "TestContestedDrift", Edits: edits{
		{"observe_heal.go", "	if o.Heals >= maxHeals {\n", "	if o.Heals < 0 {\n"}}},
	{Name: "rare drift starts over", Test: "TestRareDriftIsAlwaysHealed", Edits: edits{
		{"observe_heal.go", "		o.Heals, o.Tries = 0, 0\n", ""}}},
	{Name: "a heal waits for nothing", Test: "TestHealFails", Edits: edits{
		{"plan.go", "				t.cut = ReasonRefusedForNow // it never waits\n", ""}}},
	{Name: "an update waits for a heal of its objects", Test: "TestUpdateWaitsForHeal", Edits: edits{
		{"ownership.go", "r.Holds && r.State != Instantiated {", "r.Holds {"}}},
	{Name: "a heal leaves what counts more", Test: "TestHealRespectsHolders", Edits: edits{
		{"observer_read.go", "	theirs, err := o.session.engine.overriding(", "	_, err := o.session.engine.overriding("},
		{"observer_read.go", "if _, ok := theirs[seen.changes[i].Object]; !ok {", "if true {"}}},
	{Name: "a heal applies what the observation names", Test: "TestDriftIsHealed", Edits: edits{
		{"plan.go", "	for _, i := range places {\n", "	for i := range c.Resources {\n"}}},

	// Updates.
	{Name: "an update is from what is instantiated", Test: "TestInvalidState", Edits: edits{
		{"run_next.go", "Transitions.Of(UpdateDelete, from.State); !valid {",
			"Transitions.Of(UpdateDelete, from.State); false && !valid {"}}},
	{Name: "and is so when it begins", Test: "TestReplacedContextChangesWhileUpdateBegins", Edits: edits{
		{"run_next.go", "compares = append(compares, store.Unchanged(kv))\n", "_ = kv\n"}}},
	{Name: "UpdateDelete is queued in the transaction that ends the first phase", Test: "TestCrashAtEveryWrite",
		Edits: edits{
			{"run_finish.go", "	t.ops = append(t.ops, r.elementOps(e)...)\n	if e.Rollback",
				"	later := t.ops\n	t.ops = r.elementOps(e)\n	defer func() { _, _ = r.engine.txn(ctx, nil, later) }()\n" +
					"	if e.Rollback"}}},
	{Name: "it takes no other event's number", Test: "TestEnqueueInReplacedContextDuringUpdate", Edits: edits{
		{"lineage.go", "transaction{[]store.Compare{store.Unchanged(kv), store.Unchanged(stop)}",
			"transaction{[]store.Compare{store.Unchanged(stop)}"}}},
	{Name: "nothing is deleted when the first phase fails", Test: "TestFailedUpdate", Edits: edits{
		{"run_finish.go", "if e.Event == Update && e.Status == Done {", "if e.Event == Update {"}}},
	{Name: "hooks of an end that was stopped are deleted", Test: "TestInterruptedHooks", Edits: edits{
		{"plan.go", "		ends = append(ends, byWave(list)...)\n",
			"		if run {\n			ends = append(ends, byWave(list)...)\n		}\n"}}},
	{Name: "but not those that the other context may wait for", Test: "TestUpdateAndTerminateWithOneHook", Edits: edits{
		{"plan.go", "|| (!run || p.ended) && p.ends[", "|| false && p.ends["}}},
	{Name: "nothing is kept for a context that has ended", Test: "TestTerminateRightAfterUpdate", Edits: edits{
		{"plan.go", "		if p.ended {\n", "		if false {\n"}}},

	// Recovery.
	{Name: "an update replaces all that a failed one has left", Test: "TestRecovery", Edits: edits{
		{"lineage.go", "queue = slices.Concat(queue, rec.Previous, links)", "queue = slices.Concat(queue, links)"}}},
	{Name: "also those that updates from the same context led to", Test: "TestRecovery", Edits: edits{
		{"lineage.go", "queue = slices.Concat(queue, rec.Previous, links)", "queue = slices.Concat(queue, rec.Previous)"}}},
	{Name: "and where a context between them was terminated", Test: "TestTerminateBetweenFailedUpdates", Edits: edits{
		{"lineage.go", "		links = append(links, r.id)\n", "		if id == from {\n			links = append(links, r.id)\n		}\n"}}},
	{Name: "after a failure everything is applied", Test: "TestRecovery", Edits: edits{
		{"plan.go", "return p.whole || p.diff", "return p.diff"}}},
	{Name: "Wait waits for all that an update replaces", Test: "TestWaitIncludesReplacedContexts", Edits: edits{
		{"lineage.go", ", UCID: r.id, Next: first}", ", UCID: r.id}"}}},

	// Ownership.
	{Name: "what another context holds is left", Test: "TestTerminateLeavesObjectsOfOthers", Edits: edits{
		{"ownership.go", "	holds := func(_ *neighbor, r *record) bool { return r.Holds }\n	o.task",
			"	holds := func(_ *neighbor, r *record) bool { return false }\n	o.task"}}},
	{Name: "the hold is written with the state", Test: "TestHoldIsWrittenWithTheState", Edits: edits{
		{"run_next.go", "next.State, next.Holds = row.Current, !e.Event.removes()", "next.State = row.Current"}}},
	{Name: "what is applied waits for events that delete it", Test: "TestInstantiateWhileTerminating", Edits: edits{
		{"ownership.go", "		err = o.awaitRelease(ctx)\n", ""}}},
	{Name: "a namespace stays while others have objects in it", Test: "TestNamespaceOfOthersIsLeft", Edits: edits{
		{"ownership.go", "			add(t.inside(), object)\n", "			_ = t\n"}}},
	{Name: "what is left gets the manifest of its holder", Test: "TestHandOver", Edits: edits{
		{"ownership.go", "	if len(theirs) == 0 {\n", "	if len(theirs) >= 0 {\n"}}},
	{Name: "that of an update rather than that of what it is from", Test: "TestHandOver", Edits: edits{
		{"lineage.go", "		next.Previous = append(next.Previous, id)\n", ""}}},
	{Name: "a manifest that is refused keeps nothing from being terminated", Test: "TestHandOverIsRefused", Edits: edits{
		{"ownership.go", "	if errors.Is(connector.ClassOf(err), connector.ErrTerminal) {\n		err = nil\n",
			"	if err == nil {\n		err = nil\n"}}},
	{Name: "nothing is handed over to who has ended", Test: "TestHolderEndsWhileHandedOver", Edits: edits{
		{"ownership.go", "	return now.Holds, nil\n", "	return true, nil\n"}}},
	{Name: "also if it has ended long ago", Test: "TestHolderEndsWhileClusterIsDead", Edits: edits{
		{"ownership.go", "p.neighbor); err != nil || !holds { //", "p.neighbor); err != nil || false && !holds { //"}}},
	{Name: "and then to the next holder", Test: "TestNextHolderKeepsObject", Edits: edits{
		{"ownership.go", "		released = released || !holds\n",
			"			for _, r := range p.resources[:len(p.resources)*map[bool]int{false: 1}[holds]] {\n				delete(o.task.left, " +
				"r.Object)\n			}\n"}}},
	{Name: "Diff takes no context for a holder that the update replaces", Test: "TestDiffOfReplacedContexts", Edits: edits{
		{"diff_plan.go", "return r.Holds && !slices.Contains(p.replaced, n.id)", "return r.Holds"}}},
	{Name: "and takes the one that the update leads to for one", Test: "TestDiffKeepsSharedNamespaces", Edits: edits{
		{"diff_plan.go", "		if n.id == p.target {", "		if false {"}}},
	{Name: "Diff applies everything where the event does", Test: "TestDiffOfReplacedContexts", Edits: edits{
		{"diff_plan.go", "plan.replaced, p.whole = next.Previous, next.Whole", "plan.replaced = next.Previous"}}},
	{Name: "what a Delete has left is removed", Test: "TestDeleteOfManyClusters", Edits: edits{
		{"contexts.go", "return append(ops, store.Put(key, encode(unfinished{e.now()}))), func", "return ops, func"}}},

	// Detached clusters.
	{Name: "an event leaves out a cluster that was detached before it began", Test: "TestDetachWhileEventBegins",
		Edits: edits{
			{"run_next.go", "store.Unchanged(r.img.detachedKV)}\n	var ops", none + "}\n	var ops"}}},
	{Name: "the event under way does too", Test: "TestDetachWhileInstantiating", Edits: edits{
		{"detach.go", "		t.ops = append(t.ops, putActive(img.head.ID))\n", ""}}},
	{Name: "a context holds nothing on a detached cluster", Test: "TestDetachedContextHoldsNoObjects", Edits: edits{
		{"inventory.go", "r.Holds = !detached.has(n.cluster)", "_ = detached"}}},
	{Name: "a cleanup waits for calls of the detached context", Test: "TestCleanupWaitsForCallInFlight", Edits: edits{
		{"ownership.go", "		err = o.awaitOrigin(ctx)\n", ""}}},
	{Name: "a cleanup leaves what others hold", Test: "TestDetachThenTerminateAndDelete", Edits: edits{
		{"ownership.go", "		err = o.findHolders(ctx)\n	}\n",
			"		if t.remnant == nil {\n			err = o.findHolders(ctx)\n		}\n	}\n"}}},
	{Name: "a cleanup runs no hooks", Test: "TestDetachThenTerminateAndDelete", Edits: edits{
		{"plan.go", "p.remove(c, all, p.remnant == nil)", "p.remove(c, all, true)"}}},
	{Name: "an update applies everything where its context was detached", Test: "TestAttach", Edits: edits{
		{"detach.go", "(event == Update || !entry.Attached)", "(event != Update && !entry.Attached)"}}},
	{Name: "and deletes everything where the new context is", Test: "TestDetachBeforeUpdateDeletes", Edits: edits{
		{"detach.go", "(event == Update || !entry.Attached)", "event == Update"}}},
	{Name: "an event handles a cluster only if it did not leave it out", Test: "TestAttachWhileClusterIsSkipped",
		Edits: edits{
			{"detach.go", "return entry.Attached && !leftOut[entry.Cluster]", "return entry.Attached"}}},
	{Name: "Attach ends the cleanup", Test: "TestAttach", Edits: edits{
		{"detach.go", "if img.record.Holds && next.Remnant", "if !img.record.Holds && next.Remnant"}}},
	{Name: "a cluster for which only cleanups wait is probed rarely", Test: "TestForget", Edits: edits{
		{"cluster.go", "	if o.task.remnant != nil {\n		c.parkCleanupLocked(o)\n		return\n	}\n", ""}}},
	{Name: "an event does not wait for that probe", Test: "TestInstantiateAfterDetach",
		Edits: edits{{"run.go", "		r.hurried()\n", ""}}},
	{Name: "a cleanup never fails", Test: "TestCleanupIsRefused", Edits: edits{
		{"cluster.go", "	case o.task.remnant != nil && !errors.Is(class, connector.ErrUnreachable):\n		c.retryLocked(o, " +
			"ReasonRefusedForNow, err)\n", ""}}},

	// Clusters.
	{Name: "deletion is in reverse order", Test: "TestResourceOrder",
		Edits: edits{{"waves.go", "if order == DeleteOrderReverse {", "if false {"}}},
	{Name: "deletion is confirmed", Test: "TestFinalizers",
		Edits: edits{{"waves.go", ", {verb: goneVerb, resources: list}}", "}"}}},
	{Name: "hooks are waited for", Test: "TestResourceOrder", Edits: edits{
		{"waves.go", "phase{verb: readyVerb, resources: wave, succeeded: slices.Clone(succeeded)})",
			"phase{verb: readyVerb})"}}},
	{Name: "dependencies are waited for", Test: "TestResourceOrder",
		Edits: edits{{"gate.go", "		blocked = blocked || !g.open\n", ""}}},
	{Name: "and for some time more", Test: "TestDependencyWait", Edits: edits{
		{"gate.go", "	case g.wait > 0:\n", "	case false:\n"}}},
	{Name: "dependents are deleted first", Test: "TestResourceOrder",
		Edits: edits{{"plan.go", "				g.outlives(a.Name, &a.DependsOn[j])\n", "				_ = g.outlives\n"}}},
	{Name: "one prober for all who wait", Test: "TestDeadCluster", Edits: edits{
		{"cluster_probe.go", "if c.probing || c.dead {", "if c.dead {"}}},
	{Name: "a repeated call leaves out what was done", Test: "TestRetryContinues", Edits: edits{
		{"progress.go", "		o.accepted[index] = true\n", ""}}},
	{Name: "retries are counted since the last progress", Test: "TestRetryContinues", Edits: edits{
		{"progress.go", "		o.attempts = 0\n", ""}}},
	{Name: "time is limited from the last progress", Test: "TestLargeBatchFinishes", Edits: edits{
		{"progress.go", "	left := t.limit - t.op.stalled()\n", "	left := time.Duration(0)\n"}}},
	{Name: "a call without progress is given up", Test: "TestCallWithoutProgress", Edits: edits{
		{"cluster.go", "	defer newStallTimer(o, options.CallTimeout, func() { c.giveUp(o) }).stop()\n", ""}}},
	{Name: "a failed probe means nothing while calls make progress", Test: "TestFailedProbeWhileCallsSucceed",
		Edits: edits{
			{"cluster_probe.go", "if !c.down && c.progressingLocked() {", "if false {"}}},
	{Name: "a probe may take longer than the interval", Test: "TestSlowProbes", Edits: edits{
		{"cluster_probe.go", "c.options().ProbeTimeout)\n	defer cancel()",
			"c.options().ProbeInterval)\n	defer cancel()"}}},
	{Name: "a status fits into a record", Test: "TestManyResources", Edits: edits{
		{"run_advance.go", "omit := size > maxStates &&", "omit := false &&"}}},

	// Waves and hooks.
	{Name: "a wave waits for the wave before", Test: "TestWavesAreAwaited", Edits: edits{
		{"waves.go", "phase{verb: readyVerb, resources: filter(all, same)}",
			"phase{verb: readyVerb, resources: filter(nil, same)}"}}},
	{Name: "also for objects of that wave that have not changed", Test: "TestWavesOfUpdate", Edits: edits{
		{"waves.go", "resources: filter(all, same)}", "resources: filter(wave, same)}"}}},
	{Name: "each wave is gone before the one below is deleted", Test: "TestWavesAreAwaited", Edits: edits{
		{"waves.go", "	return chunk(list)\n", "	return [][]appcontext.Resource{list}\n"}}},
	{Name: "the earlier object of a hook is gone before it is created", Test: "TestBeforeHookCreationWaits", Edits: edits{
		{"waves.go", "deletePhases(havingPolicy(wave, appcontext.HookDeletePolicyBeforeCreation))...)",
			"deletePhases(havingPolicy(wave, appcontext.HookDeletePolicyBeforeCreation))[:min(1, len(havingPolicy(wave, " +
				"appcontext.HookDeletePolicyBeforeCreation)))]...)"}}},
	{Name: "a hook that has succeeded stays for later waves", Test: "TestDeletePolicies", Edits: edits{
		{"waves.go", "		succeeded = append(succeeded, havingPolicy(wave, appcontext.HookDeletePolicySucceeded)...)\n",
			"		out = append(out, deletePhases(havingPolicy(wave, appcontext.HookDeletePolicySucceeded))...)\n"}}},
	{Name: "a hook that has failed is deleted by its policy", Test: "TestDeletePolicies", Edits: edits{
		{"waves.go", "			return r.Has(appcontext.HookDeletePolicyFailed)\n", "			return false\n"}}},
	{Name: "hooks that had succeeded are deleted when a later one fails", Test: "TestDeletePolicies", Edits: edits{
		{"waves.go", "append(slices.Clone(p.succeeded), out...)", "append([]appcontext.Resource(nil), out...)"}}},
	{Name: "an app fails with the reason of its hook", Test: "TestCleanupAfterFailureIsAwaited", Edits: edits{
		{"run_advance.go", "		case t.failure != nil:\n", "		case false:\n"}}},
	{Name: "a delete policy leaves hooks that another context holds", Test: "TestPoliciesLeaveObjectsOfOthers",
		Edits: edits{
			{"ownership_hooks.go", "	maps.Copy(t.left, found)\n", "	_ = found\n"}}},
	{Name: "also what another context holds since", Test: "TestLatePoliciesLeaveObjectsOfOthers", Edits: edits{
		{"ownership_hooks.go", "objects, &others{},", "objects, t.others,"}}},
	{Name: "and what it begins to hold during the call", Test: "TestLatePoliciesLeaveObjectsOfOthers", Edits: edits{
		{"ownership_hooks.go", "!o.task.deleted[r.Object]", "o.phase.verb == goneVerb"}}},
	{Name: "but not hooks of a context that the update replaces", Test: "TestBeforeHookCreationWaits", Edits: edits{
		{"ownership_hooks.go", "r.Holds && !slices.Contains(replaced, n.id)",
			"r.Holds && !slices.Contains(replaced[:0], n.id)"}}},
	{Name: "only while the update is in progress", Test: "TestHookOfContextThatWasReplaced", Edits: edits{
		{"ownership.go", "	if o.task.event != Update {\n		return nil, nil\n	}\n", ""}}},
	{Name: "no context holds a hook that is deleted when it has succeeded", Test: "TestHookThatIsDeletedIsNotHeld",
		Edits: edits{
			{"inventory.go", " ||\n\t\tr.Has(appcontext.HookDeletePolicySucceeded)\n", "\n"}}},

	// Rollouts.
	{Name: "it is stored that a cluster begins before it does", Test: "TestRolloutModel", Edits: edits{
		{"run_rollout.go", "	return r.store(ctx, []store.Compare{store.Unchanged(o.kv)})\n", "	return nil\n"}}},
	{Name: "also of each of its apps", Test: "TestRolloutBeginOfSeveralTransactions", Edits: edits{
		{"run_rollout.go", "		t.dirty = t.end == \"\" && ", "		t.dirty = false && "}}},
	{Name: "a pause holds at once", Test: "TestPauseActsAtOnce", Edits: edits{
		{"run_rollout.go", "[]store.Compare{store.Unchanged(o.kv)}", "nil"}}},
	{Name: "an abort that was accepted ends the event", Test: "TestAbortBeforeEnd", Edits: edits{
		{"run_finish.go", "t.compares = append(t.compares, store.Unchanged(w.rollout.kv))",
			"t.compares = append(t.compares, " + none + ")"}}},
	{Name: "no more clusters are in progress than may be", Test: "TestRolloutOrder", Edits: edits{
		{"rollout_order.go", "max(g.limit-running, 0)", "max(g.limit, 0)"}}},
	{Name: "a deadline counts from the begin, also after a crash", Test: "TestRolloutDeadline", Edits: edits{
		{"rollout_order.go", "		c.begin(s.Begun)\n", "		c.begin(time.Now())\n"}}},
	{Name: "a cluster that never waits keeps the deadline too", Test: "TestRolloutDeadlineOfSlowRequests", Edits: edits{
		{"run_advance.go", "if t.cut == ReasonDeadline && t.failure == nil {", "if false {"}}},
	{Name: "failures stop a rollout", Test: "TestRolloutMaxFailures", Edits: edits{
		{"rollout_order.go", "	if failed > o.maxFailures {\n", "	if failed > len(o.clusters) {\n"}}},
	{Name: "also those of a group", Test: "TestRolloutMaxFailures", Edits: edits{
		{"rollout_order.go", "g.maxFailures >= 0 && n > g.maxFailures", "g.maxFailures > n"}}},
	{Name: "a gate after a group holds all others", Test: "TestRollbackOfGroup", Edits: edits{
		{"rollout_order.go", "g.ApproveAfter && !o.approved(g, GateAfterGroup)", "false"}}},
	{Name: "what becomes unready is waited for again", Test: "TestRolloutMinSuccessTime", Edits: edits{
		{"cluster_wait.go", "			o.readySince = time.Time{}\n", ""}}},
	{Name: "a rollback leads to what is in use", Test: "TestRollbackOnFailure", Edits: edits{
		{"run_finish.go", "|| from.State != Instantiated)", "|| from.Version == 0)"}}},
	{Name: "what was there before is not terminated", Test: "TestRollbackOnFailure", Edits: edits{
		{"run_finish.go", "} else if !r.img.record.Fresh {", "} else if r.img.record.Version == 0 {"}}},
	{Name: "nor is an event that a person ended rolled back", Test: "TestRolloutEndsWithTerminate", Edits: edits{
		{"run_finish.go", "RollbackOnFailure && w.cut == \"\" {", "RollbackOnFailure {"}}},

	{Name: "nothing is deleted where a rollout has not begun", Test: "TestRollbackSkipsClustersThatDidNotBegin",
		Edits: edits{
			{"plan.go", "				t.phases = nil\n", "				t.absent = true\n"}}},
	{Name: "also after later events", Test: "TestRollbackSkipsClustersThatDidNotBegin", Edits: edits{
		{"absent.go", "e.Rollout && (r.Partial || r.State.empty())", "e.Rollout && r.State.empty()"}}},
	{Name: "nothing is held there", Test: "TestNoHoldWhereRolloutDidNotBegin", Edits: edits{
		{"inventory.go", "		r.Holds = !absent\n", "		_ = absent\n"}}},
	{Name: "nothing is cleaned up there", Test: "TestDetachOfClusterThatDidNotBegin", Edits: edits{
		{"detach.go", "	if !img.record.Partial {\n		return apps", "	if true {\n		return apps"}}},

	// Contexts.
	{Name: "an ID is used once", Test: "TestInvalidInput", Edits: edits{
		{"create.go", "conditions: []store.Compare{store.Absent(headKey(h.ID))}}", "conditions: []store.Compare{" + none +
			"}}"}}},
	{Name: "late parts of a Create write nothing", Test: "TestLatePartsOfCreate", Edits: edits{
		{"create.go", "n.conditions = append(n.conditions, store.SameLife(unfinishedKey(n.id, n.generation), " +
			"result.Revision))", "_ = 0"}}},
	{Name: "what a Create has left is removed", Test: "TestCrashInCreate",
		Edits: edits{{"session.go", "	s.spawn(s.sweep)\n", ""}}},
	{Name: "a context with events is not deleted", Test: "TestDeleteWithQueuedEvent", Edits: edits{
		{"contexts.go", "store.Absent(activeKey(id))}", none + "}"}}},
}

// TestRulesAreFound: each rule still matches the source. After a change to such a line, update the
// rule.
func TestRulesAreFound(t *testing.T) {
	for _, r := range rules {
		r.Without(t, ".")
	}
}
