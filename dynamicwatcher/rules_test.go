// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/ruletest"
)

type edits = []ruletest.Edit

// rules lists rules of the watcher. The test of a rule fails without its lines.
var rules = []ruletest.Rule{
	// Changes of an object.
	{Name: "an unchanged object is not reported after a reconnect", Test: "TestReconnectReportsOnlyChangedObjects",
		Edits: edits{
			{"object.go", "case !o.list.synced() || had && was == e.ResourceVersion:",
				`case !o.list.synced() || had && was == "":`}}},
	{Name: "a deletion during an interruption is reported", Test: "TestReconnectReportsOnlyChangedObjects", Edits: edits{
		{"object.go", `if o.list.synced() && (o.id.Name == "" || exists.len() == 0) {`, "if false {"}}},
	{Name: "a recreated object is added and not deleted", Test: "TestObjectRecreatedDuringInterruption", Edits: edits{
		{"object.go", `if o.list.synced() && (o.id.Name == "" || exists.len() == 0) {`, "if o.list.synced() {"}}},
	{Name: "an object that came and went during a reconcile is reported",
		Test: "TestObjectCreatedAndDeletedDuringInterruption", Edits: edits{
			{"object.go", "	o.notifyMissedLocked(again)\n", ""}}},
	{Name: "NotifyAlways reconciles after an interruption", Test: "TestNotifyAlwaysReconcilesAfterReconnect", Edits: edits{
		{"object.go", "o.watcher.options.Reconnect == NotifyAlways {", "false {"}}},
	{Name: "DisableInitialReconcile", Test: "TestDisableInitialReconcile", Edits: edits{
		{"object.go", "if s.reading || o.watcher.options.DisableInitialReconcile {", "if s.reading {"}}},
	{Name: "no reconcile for the version that was seen", Test: "TestAddWatcherAtReconcilesForOtherVersions", Edits: edits{
		{"object.go", "if t.ResourceVersion == s.seen {", "if false {"}}},
	{Name: "an expired version is not used again", Test: "TestServerRestoredFromBackup", Edits: edits{
		{"watch.go", "	case stream.Expired(err):\n		return restart", "	case stream.Expired(err):\n		return retry"}}},

	// Access.
	{Name: "a short refusal is not reported", Test: "TestShortRefusalIsNotReported", Edits: edits{
		{"single.go", "return s.refusals >= lostRefusals && now.Sub(s.refused) >= lostAfter", "return s.refusals > 0"}}},
	{Name: "lost access is reported once", Test: "TestLostAccessIsReportedAndRestored", Edits: edits{
		{"single.go", "	if o.accessLost {\n		return false\n	}\n", ""}}},
	{Name: "restored access is reported", Test: "TestLostAccessIsReportedAndRestored", Edits: edits{
		{"object.go", "if o.accessLost || again && !open", "if again && !open"}}},
	{Name: "DropAndNotify removes the object", Test: "TestDropAndNotifyRemovesObject", Edits: edits{
		{"single.go", "w.options.AccessLost == DropAndNotify", "false"}}},

	// Kinds.
	{Name: "a deleted kind is looked up", Test: "TestCRDDeletedAndRecreated", Edits: edits{
		{"watch.go", "errors.Is(err, errScope):\n		return lookUp", "errors.Is(err, errScope):\n		return retry"}}},
	{Name: "a change of the CRD looks up the kind at once", Test: "TestWatchBeginsWhenCRDIsEstablished", Edits: edits{
		{"arrivals.go", "		a.changed.Set()\n", ""}}},
	{Name: "watches that wait for a kind share the watch on its CRD", Test: "TestWatchBeginsWhenCRDIsEstablished",
		Edits: edits{
			{"arrivals.go", "		w.arrivals[user.gvk] = a\n", ""}}},
	{Name: "a new kind is not given the second that the server asks for", Test: "TestNewCRDIsWatchedWithoutRetryAfter",
		Edits: edits{
			{"watch.go", " && a.watcher.options.Clock.Since(a.arrived) > settling {", " {"}}},
	{Name: "a server cannot delay a watch for long", Test: "TestNewCRDIsWatchedWithoutRetryAfter", Edits: edits{
		{"watch.go", "min(time.Duration(seconds)*time.Second, maxSuggested)", "time.Duration(seconds)*time.Second"}}},
	{Name: "a kind that comes with namespaces is noticed", Test: "TestClusterScopedKindBecomesNamespaced", Edits: edits{
		{"single.go", `if o.id.Name != "" && misplaced(e, o.id.Namespace) {`, "if false {"}}},

	// Servers.
	{Name: "a server without sendInitialEvents is listed", Test: "TestReconnectReportsOnlyChangedObjects", Edits: edits{
		{"internal/stream/http.go", "if lacksWatchList(err) {", "if false {"}}},
	{Name: "a server that ignores sendInitialEvents is listed", Test: "TestServerWithoutInitialBookmarkIsListed",
		Edits: edits{
			{"internal/stream/http.go", "			h.plain.Store(t.Resource.GroupVersion(), h.clock.Now().Add(plainFor))\n			cancel(",
				"			cancel("}}},
	{Name: "a silent request ends", Test: "TestRequestWithoutAnswerIsRepeated", Edits: edits{
		{"internal/stream/pool.go", "	limit.Reset(silence)\n", ""}}},

	// Reconciles.
	{Name: "MinInterval", Test: "TestMinIntervalLimitsReconciles", Edits: edits{
		{"queue.go", "delay = max(delay, w.options.MinInterval-since)", "_ = since"}}},
	{Name: "a watcher that is added again keeps MinInterval", Test: "TestMinIntervalAppliesToWatcherThatIsAddedAgain",
		Edits: edits{
			{"registry.go", ", began: r.busy[id]}", "}"}}},
	{Name: "BatchWindow", Test: "TestBatchWindowCollectsChanges", Edits: edits{
		{"queue.go", "delay := w.options.BatchWindow", "delay := time.Duration(0)"}}},
	{Name: "a retry has the triggers of the failure", Test: "TestRetryHasTriggersOfFailedReconcile", Edits: edits{
		{"queue.go", "		w.giveBack(watcher, triggers)\n", ""}}},
	{Name: "a removed watcher is not reconciled", Test: "TestRemovedWatcherIsNotReconciled", Edits: edits{
		{"queue.go", "if _, ok := w.due[watcher]; !ok {", "if false {"}}},
	{Name: "no reconcile begins after shutdown", Test: "TestShutdownDropsQueue", Edits: edits{
		{"queue.go", "if shutdown || ctx.Err() != nil {", "if shutdown {"}}},

	// Queries.
	{Name: "a query waits while its watch is interrupted", Test: "TestQueryWaitsForNextWatch", Edits: edits{
		{"object.go", "case o.state == StateActive, o.state == StatePendingKind && o.list.synced():",
			"case o.list.synced():"}}},
	{Name: "no reconcile for what a query returned", Test: "TestObjectThatWasReadCausesNoReconcile", Edits: edits{
		{"object.go", "if s.reading || o.watcher.options.DisableInitialReconcile {",
			"if o.watcher.options.DisableInitialReconcile {"}}},
	{Name: "EndQueryBatch removes what was not read", Test: "TestQueryBatchReplacesWatches", Edits: edits{
		{"query.go", "_, keep := b.asked[o]; return keep", "_, keep := b.asked[o]; return keep || true"}}},
	{Name: "AbortQueryBatch removes what was added", Test: "TestAbortedQueryBatchRestoresWatches", Edits: edits{
		{"query.go", "_, added := b.added[o]; return !added", "_, added := b.added[o]; return !added || true"}}},

	// One watch for many objects.
	{Name: "a shared watch ends when few objects are left", Test: "TestSharedWatchEndsWhenFewObjectsAreLeft", Edits: edits{
		{"shared.go", "case !limits.Keeps(n, g.size) && g.phase == consolidate.Sharing:", "case false:"}}},
	{Name: "a shared watch ends when its namespace grows", Test: "TestSharedWatchEndsWhenNamespaceGrows", Edits: edits{
		{"shared.go", "case !limits.Keeps(n, g.size) && g.phase == consolidate.Sharing:",
			"case !limits.Keeps(n, 0) && g.phase == consolidate.Sharing:"}}},
	{Name: "a shared watch that hangs is given up", Test: "TestHangingSharedWatchIsReplaced", Edits: edits{
		{"shared.go", "			g.cut(errSlow)\n", ""}}},

	// The object cache.
	{Name: "a read makes an entry the most recently used one", Test: "TestObjectCacheRemovesLeastRecentlyUsed",
		Edits: edits{
			{"cache.go", "	c.recent.MoveToFront(element)\n", ""}}},
	{Name: "the least recently used entry leaves", Test: "TestObjectCacheRemovesLeastRecentlyUsed", Edits: edits{
		{"cache.go", "c.removeLocked(c.recent.Back())", "c.removeLocked(c.recent.Front())"}}},
	{Name: "an entry that is too large takes no other's place", Test: "TestObjectCacheDoesNotStoreEntryLargerThanMaxBytes",
		Edits: edits{
			{"cache.go", "if c.options.MaxBytes >= 0 && entry.bytes > c.options.MaxBytes {", "if false {"}}},
}

// TestRulesAreFound fails if the lines of a rule have changed. Then update the list of rules too.
func TestRulesAreFound(t *testing.T) {
	for _, r := range rules {
		r.Without(t, ".")
	}
}
