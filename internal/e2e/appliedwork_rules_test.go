// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/ruletest"
)

// appliedWorkRules are the rules that the campaigns, or a check on a real API server, must miss
// when they are removed. The tests of package appliedwork cover the other rules.
var appliedWorkRules = []ruletest.Rule{
	{Name: "the intent is recorded first", Test: campaignOnly, Edits: []ruletest.Edit{
		{"applier_record.go", "\t\t\t\tinv.put(item.intent(inv))\n", ""}}},
	{Name: "the owner reference is part of the request", Test: campaignOnly, Edits: []ruletest.Edit{
		{"manifest.go", "if !f.unowned {", "if false {"}}},
	{Name: "deletions have preconditions", Test: campaignOnly, Edits: []ruletest.Edit{
		{"pruner_object.go", "Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}, ",
			"Preconditions: &metav1.Preconditions{UID: &uid}, "},
		{"pruner_object.go", "live, uid, rv := item.live, item.live.GetUID(), item.live.GetResourceVersion()",
			"live, uid := item.live, item.live.GetUID()"}}},
	{Name: "an owner reference is the evidence", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "\tcase !IsOwnedBy(live, owners.Self):\n\t\treturn Retain\n", ""}}},
	{Name: "another owner keeps it", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "return !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID)", "return false"}}},
	{Name: "not served is not absent", Test: campaignOnly, Edits: []ruletest.Edit{
		{"cluster.go", "\tcase IsTypeNotServed(err):\n", "\tcase false:\n"}}},
	{Name: "another AppliedWork keeps it", Test: handoverOnly, Edits: []ruletest.Edit{
		{"decide.go", "policy == PolicyOrphan || owners.claimed(live):", "policy == PolicyOrphan:"}}},
	{Name: "another owner keeps it, of two agents", Test: ownersOnly, Edits: []ruletest.Edit{
		{"decide.go", "return !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID)", "return false"},
		{"decide.go", "return listed.UID != o.Self && !listed.Terminating", "return listed.UID == \"none\""}}},
	{Name: "what a policy leaves stays, of two agents", Test: ownersOnly, Edits: []ruletest.Edit{
		{"applier_run.go", "|| r.opts.Policies.of(item.id, item.adopted) == PolicyOrphan",
			"|| item.adopted && r.opts.Policies.of(item.id, true) == PolicyOrphan"},
		{"applier_run.go", "{ return r.opts.Policies.For(item.id) == PolicyOrphan }", "{ return false }"}}},
	{Name: "a refused adoption changes nothing", Test: "^TestAppliedWork$/^RefusedMigration$", Edits: []ruletest.Edit{
		{"applier_object.go", "\tif action == ActionAdopted {\n\t\tif err := r.mayTake",
			"\tif false {\n\t\tif err := r.mayTake"}}},
	{Name: "what is kept is not created again", Test: "^TestAppliedWork$/^NotRecreated$", Edits: []ruletest.Edit{
		{"applier_object.go", "if r.stays(item) || hasTracesOfOthers", "if hasTracesOfOthers"}}},
	{Name: "what has lost our reference is not created again", Test: "^TestAppliedWork$/^NotRecreated$",
		Edits: []ruletest.Edit{
			{"applier_object.go", "!item.options.Recreate || !IsOwnedBy(item.live, r.work.UID)",
				"!item.options.Recreate || !item.ours"}}},
	{Name: "what has an object that stays, stays", Test: "^TestAppliedWork$/^ContainersOfLeft$", Edits: []ruletest.Edit{
		{"applier_run.go", "return item.contains(other.id) && r.stays(other)", "return false"}}},
	{Name: "what a policy names keeps its CRD", Test: "^TestAppliedWork$/^DroppedContents$", Edits: []ruletest.Edit{
		{"applier_run.go", "r.keepers[item.change.Key] ||", ""}}},
	{Name: "what is left is recorded", Test: "^TestAppliedWork$/^DroppedContents$", Edits: []ruletest.Edit{
		{"pruner.go", "case item.left && item.isSettled():", "case false:"}}},
	{Name: "what was dropped and stays keeps its Namespace and its CRD", Test: "^TestAppliedWork$/^DroppedContents$",
		Edits: []ruletest.Edit{
			{"applier_record.go", "\tr.findKeepers(ctx, inv)\n", ""}}},
	{Name: "the list for claims is consistent", Test: "^TestAppliedWorkIndex$/^Fresh$", Edits: []ruletest.Edit{
		{"works.go", "options := metav1.ListOptions{Limit: pageSize}",
			"options := metav1.ListOptions{Limit: pageSize, ResourceVersion: \"0\"}"}}},
	{Name: "AppliedWorks are read as they were listed", Test: "^TestAppliedWorkIndex$/^Moved$", Edits: []ruletest.Edit{
		{"works.go", "options := metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: " +
			"metav1.ResourceVersionMatchExact}", "options := metav1.ListOptions{}"},
		{"works.go", "w != nil && w.version == work.ResourceVersion {", "w != nil {"}}},
	{Name: "the index knows one version of an AppliedWork", Test: "^TestAppliedWorkIndex$/^SameAsList$",
		Edits: []ruletest.Edit{
			{"index.go", "if !ok || known.version != w.version {", "if !ok {"}}},
	{Name: "what stays has no reference of ours", Test: "^TestAppliedWork$/^OrphanOfOthers$", Edits: []ruletest.Edit{
		{"applier_object.go", "if err == nil && r.hasSurplus(item, applied) {", "if false {"}}},

	// Rules with one test each, in the order of the package's guarantees.
	{Name: "works of others are left alone", Test: "^TestAppliedWork$/^Newcomer$", Edits: []ruletest.Edit{
		{"reconciler/reconciler.go", "LabelShardOf] != \"\", !r.opts.Owns(work):", "LabelShardOf] != \"\":"}}},
	{Name: "a refused apply is no claim", Test: "^TestAppliedWork$/^RefusedApply$", Edits: []ruletest.Edit{
		{"applier_record.go", "\t\tinv.remove(refused)\n", ""}}},
	{Name: "what a policy leaves has no owner", Test: "^TestAppliedWork$/^OrphanWithoutAgent$", Edits: []ruletest.Edit{
		{"applier_object.go", "unowned: r.isUnowned(item), kept", "unowned: false, kept"}}},
	{Name: "a create is as strict as an apply", Test: "^TestAppliedWork$/^FirstWrite$", Edits: []ruletest.Edit{
		{"applier_object.go",
			"FieldManager: item.manager, FieldValidation: metav1.FieldValidationStrict, // as an apply has it",
			"FieldManager: item.manager,"}}},
	{Name: "keys that repeat are refused by the first write", Test: "^TestAppliedWork$/^FirstWrite$",
		Edits: []ruletest.Edit{
			{"applier_object.go", "if fieldset.MayRepeatKeys(manifest.Object) {", "if false {"}}},
	{Name: "the CRD of AppliedWork is protected", Test: "^TestAppliedWork$/^Protected$", Edits: []ruletest.Edit{
		{"kinds.go", "Name: v1alpha1.GroupVersionResource.GroupResource().String()},",
			"Name: \"not-\" + v1alpha1.GroupVersionResource.GroupResource().String()},"}}},
	{Name: "WaitGone finds the objects", Test: "^TestAppliedWork$/^WaitGoneAfterwards$", Edits: []ruletest.Edit{
		{"waitgone.go", "case len(wait.entries) == 0 || shardsOf(work) > 0:", "case false:"}}},
	{Name: "a resync repairs", Test: "^TestAppliedWork$/^Drift$/^resync$", Edits: []ruletest.Edit{
		{"reconciler/reconciler.go", "return reconcile.Result{RequeueAfter: wait.Jitter(resync, 0.1)}, nil",
			"_ = wait.Jitter\n\treturn reconcile.Result{}, nil"}}},
	{Name: "a change of an object is a request", Test: "^TestAppliedWork$/^Drift$/^watch$", Edits: []ruletest.Edit{
		{"reconciler/reconciler.go", "entriesErr = r.watch(work, append(entries, unmanaged(changes)...))", "_ = entries"}}},
	{Name: "a conflict stays with its field", Test: "^TestAppliedWork$/^FieldConflict$", Edits: []ruletest.Edit{
		{"applier_object.go", "case conflict != nil && action == ActionConfigured && conflict.without(",
			"case false && conflict.without("}}},
	{Name: "prune after a complete apply", Test: "^TestAppliedWork$/^Incomplete$", Edits: []ruletest.Edit{
		{"reconciler/reconciler.go", "if opts.PruneIncomplete || err == nil && changes.Done() {", "if true {"}}},
	{Name: "adopted objects stay", Test: "^TestAppliedWork$/^Adopted$", Edits: []ruletest.Edit{
		{"policy.go", "adopted && !ok && p.Adopted != PolicyDelete {", "adopted && !ok && p.Adopted == PolicyOrphan {"}}},
	{Name: "adoption is recorded", Test: "^TestAppliedWork$/^Adopted$", Edits: []ruletest.Edit{
		{"manifest.go", "\tif f.adopted {\n\t\tannotate(m, adoptedAnnotation(work.UID), \"true\")\n\t}\n", ""},
		{"applier_record.go", "UID: item.change.UID, Adopted: item.adopted,\n", "UID: item.change.UID,\n"},
		{"applier_record.go", "inv.entry(i.change.Key).UID, i.adopted", "inv.entry(i.change.Key).UID, false"}}},
	{Name: "a release leaves no trace", Test: "^TestAppliedWork$/^Detached$", Edits: []ruletest.Edit{
		{"pruner_object.go", "if !IsOwnedBy(live, r.work.UID) && !hasTraces(live, r.work.UID) {",
			"if !IsOwnedBy(live, r.work.UID) {"}}},
	{Name: "no lock is held in a request", Test: "^TestAppliedWork$/^SlowDiscovery$", Edits: []ruletest.Edit{
		{"internal/discovery/discovery.go", "\tstore, err := request()\n\tk.mu.Lock()\n\tdefer k.mu.Unlock()\n",
			"\tk.mu.Lock()\n\tdefer k.mu.Unlock()\n\tstore, err := request()\n"}}},
	{Name: "what was made again is looked at again", Test: "^TestAppliedWork$/^Recreated$", Edits: []ruletest.Edit{
		{"conflicts.go", "case isInvalid(err, \"metadata.uid\"):", "case false:"}}},
	{Name: "the hash goes where there is room", Test: "^TestAppliedWork$/^LargeAnnotations$", Edits: []ruletest.Edit{
		{"applier_object.go", "\tf.unhashed = !hasRoom(item.source, item.live, r.work.UID)\n", ""}}},
	{Name: "an executor grants what it may", Test: "^TestAppliedWork$/^Escalation$", Edits: []ruletest.Edit{
		{"executor.go", "\tif err := r.mayGrant(ctx, item); err != nil {\n\t\treturn err\n\t}\n", ""}}},
	{Name: "the hash is counted once", Test: "^TestAppliedWork$/^AnnotationBrink$", Edits: []ruletest.Edit{
		{"manifest.go", "\t\tdelete(all, prefix+string(uid))\n", ""}}},
	{Name: "Orphan of one work holds for others", Test: "^TestAppliedWork$/^OrphanOfShared$", Edits: []ruletest.Edit{
		{"marks.go", "return isKept(obj) || hasAnnotationOfOthers(obj, v1alpha1.AnnotationKeptPrefix, uid)",
			"return isKept(obj)"}}},
	{Name: "Orphan takes the references of others out", Test: "^TestAppliedWork$/^OrphanOfShared$", Edits: []ruletest.Edit{
		{"applier_object.go", "owner.UID == r.work.UID || r.isLeft(item) && isAppliedWork(owner)",
			"owner.UID == r.work.UID"}}},
	{Name: "Orphan of one work holds after its end", Test: "^TestAppliedWork$/^OrphanOfShared$", Edits: []ruletest.Edit{
		{"pruner_object.go", "pinned := owners.shared(live) && isKept", "pinned := false && owners.shared(live) && isKept"}}},
	{Name: "a refusal may be of a repeat", Test: "^TestAppliedWork$/^RepeatedCreate$", Edits: []ruletest.Edit{
		{"applier_object.go", "!moved && !r.mayBeRepeat(item, err) {", "!moved {"}}},
	{Name: "references to AppliedWorks are not part of a manifest", Test: "^TestAppliedWork$/^ForeignReferences$",
		Edits: []ruletest.Edit{{"manifest.go", "\t\tif isAppliedWork(owner) {\n", "\t\tif owner.UID == work.UID {\n"}}},
	{Name: "an AppliedWork that is gone keeps nothing from its successor", Test: "^TestAppliedWork$/^Successor$",
		Edits: []ruletest.Edit{{"applier_record.go", "\tr.findGone(ctx)\n", ""}}},
	{Name: "an AppliedWork that exists keeps its marks", Test: "^TestAppliedWork$/^Successor$/^living$",
		Edits: []ruletest.Edit{{"traces.go", "r.gone[uid] = !living[uid]", "r.gone[uid] = living != nil"}}},
	{Name: "an AppliedWork that keeps objects has a claim until it is gone", Test: "^TestAppliedWork$/^KeptAtTheEnd$",
		Edits: []ruletest.Edit{{"inventory.go", "(how == \"\" || how == byTeardown) &&", "how != byRelease &&"}}},
	{Name: "protected is by scope", Test: "^TestAppliedWork$/^ProtectedKeys$", Edits: []ruletest.Edit{
		{"cluster.go", "\t\t\tp.Namespace = \"\"\n", ""},
		{"cluster.go", "\tif !m.Namespaced {\n\t\tkey.Namespace = \"\"\n\t}\n", ""}}},
	{Name: "a version is not its kind", Test: "^TestAppliedWorkUpstreamCRD$/^UnservedVersion$", Edits: []ruletest.Edit{
		{"cluster.go", "if err == nil && m.Resource.Version != gvk.Version {", "if false {"}}},
}

const (
	campaignOnly = "^TestAppliedWork$/^Campaign$"
	handoverOnly = "^TestAppliedWork$/^Handover$"
	ownersOnly   = "^TestAppliedWork$/^Owners$"
	appliedWork  = "../../appliedwork" // its sources
)

// TestAppliedWorkRulesAreFound fails if a line that is a rule has changed. Its new text then
// belongs into the list of rules.
func TestAppliedWorkRulesAreFound(t *testing.T) {
	for _, r := range appliedWorkRules {
		r.Without(t, appliedWork)
	}
}
