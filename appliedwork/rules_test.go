// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/ruletest"
)

// rules are the rules that keep AppliedWork safe. Each has the test that fails without the rule;
// see rules_removed_test.go.
var rules = []ruletest.Rule{
	// Apply.
	{Name: "the intent is recorded first", Test: "TestApplyIsSafe/the_intent", Edits: []ruletest.Edit{
		{"applier_record.go", "\t\t\t\tinv.put(item.intent(inv))\n", ""}}},
	{Name: "the owner reference is part of the request", Test: "TestApplyIsSafe/the_owner_reference",
		Edits: []ruletest.Edit{
			{"manifest.go", "if !f.unowned {", "if false {"}}},
	{Name: "references to AppliedWorks are not part of a manifest", Test: "TestApplyIsSafe/owner_references",
		Edits: []ruletest.Edit{{"manifest.go", "\t\tif isAppliedWork(owner) {\n", "\t\tif owner.UID == work.UID {\n"}}},
	{Name: "a field manager for each AppliedWork", Test: "TestApplyIsSafe/each_AppliedWork", Edits: []ruletest.Edit{
		{"marks.go", "{ return prefix + \"-\" + string(uid) }", "{ return prefix }"}}},
	{Name: "nothing is applied while it is terminating", Test: "TestApplyIsSafe/no_object_is_applied",
		Edits: []ruletest.Edit{
			{"applier_record.go",
				"\tif inv.terminating() {\n\t\treturn fmt.Errorf(\"%w: %s\", ErrTerminating, r.work.Name)\n\t}\n\tr.read(ctx, " +
					"r.items)", "\tr.read(ctx, r.items)"},
			{"applier_record.go",
				"\t\tif inv.terminating() {\n\t\t\treturn fmt.Errorf(\"%w: %s\", ErrTerminating, r.work.Name)\n\t\t}\n\t\tfor",
				"\t\tfor"}}},
	{Name: "terminating is looked at in the write of the intent", Test: "TestApplyIsSafe/no_object_is_applied_when",
		Edits: []ruletest.Edit{
			{"applier_record.go",
				"\t\tif inv.terminating() {\n\t\t\treturn fmt.Errorf(\"%w: %s\", ErrTerminating, r.work.Name)\n\t\t}\n\t\tfor",
				"\t\tfor"}}},
	{Name: "create, not apply", Test: "TestApplyIsSafe/an_object_that_others_create", Edits: []ruletest.Edit{
		{"applier_object.go",
			"client.Create(ctx, manifest, metav1.CreateOptions{\n\t\tFieldManager: item.manager, FieldValidation: " +
				"metav1.FieldValidationStrict, // as an apply has it\n\t\tDryRun: r.dryRun(),\n\t})",
			"client.Apply(ctx, item.id.Name, manifest, metav1.ApplyOptions{FieldManager: item.manager, Force: true})"}}},
	{Name: "no adoption by default", Test: "TestApplyIsSafe/no_object_is_adopted", Edits: []ruletest.Edit{
		{"applier_object.go", "if adoption == AdoptionAlways ||", "if true ||"}}},
	{Name: "an adoption has the resourceVersion", Test: "TestApplyIsSafe/an_adopted_object", Edits: []ruletest.Edit{
		{"applier_object.go", "\tif action == ActionAdopted || item.options.ResourceVersion",
			"\tif item.options.ResourceVersion"}}},
	{Name: "values of an object are for its version", Test: "TestApplyIsSafe/a_manifest_with_a_resourceVersion",
		Edits: []ruletest.Edit{
			{"applier_object.go", "if action == ActionAdopted || item.options.ResourceVersion != \"\" || item.ignored != nil {",
				"if action == ActionAdopted {"}}},
	{Name: "live values of ignored fields are for their version", Test: "TestApplyIsSafe/an_ignored_field",
		Edits: []ruletest.Edit{
			{"applier_object.go", " || item.ignored != nil {", " {"}}},
	{Name: "an apply has the UID", Test: "TestApplyIsSafe/a_changed_object", Edits: []ruletest.Edit{
		{"applier_object.go", "\tbody.SetUID(live.GetUID())\n", ""}}},
	{Name: "an entry stays when its outcome is not known or it failed",
		Test: "TestApplyIsSafe/(an_unknown_outcome|a_failed_update)", Edits: []ruletest.Edit{
			{"applier_record.go", "\t\tdone, reason, message := outcome(",
				"\t\tfor _, item := range r.items {\n\t\t\tif item.change.Action == ActionFailed {\n" +
					"\t\t\t\tinv.remove([]v1alpha1.AppliedResourceMeta{{ResourceIdentifier: item.id, UID: " +
					"inv.entry(item.change.Key).UID}})\n\t\t\t}\n\t\t}\n\t\tdone, reason, message := outcome("}}},
	{Name: "a refusal may be of a repeat", Test: "TestApplyIsSafe/a_refused_repeat", Edits: []ruletest.Edit{
		{"applier_object.go", "!moved && !r.mayBeRepeat(item, err) {", "!moved {"}}},
	{Name: "a new object has an intent of its own", Test: "TestApplyIsSafe/a_new_object", Edits: []ruletest.Edit{
		{"applier_record.go", "\tif i.live != nil {\n", "\tif true {\n"},
		{"applier_object.go", "uid != \"\" && !r.dry {", "uid == \"none\" {"}}},
	{Name: "protected namespaces get no owner", Test: "TestApplyIsSafe/a_protected", Edits: []ruletest.Edit{
		{"applier_run.go", "r.isProtected(item.change.Key) || r.opts", "r.opts"}}},

	// Decisions.
	{Name: "an owner reference is the evidence", Test: "TestDecideDeletion", Edits: []ruletest.Edit{
		{"decide.go", "\tcase !IsOwnedBy(live, owners.Self):\n\t\treturn Retain\n", ""}}},
	{Name: "a reference that was taken out releases", Test: "TestDecideDeletion", Edits: []ruletest.Edit{
		{"decide.go", "entry.UID != \"\" && entry.UID == live.GetUID() || ", ""}}},
	{Name: "our reference counts whatever the UID", Test: "TestDecideDeletion", Edits: []ruletest.Edit{
		{"decide.go", "\tdefault:\n\t\treturn Delete",
			"\tcase entry.UID != \"\" && entry.UID != live.GetUID():\n\t\treturn Retain\n\tdefault:\n\t\treturn Delete"}}},
	{Name: "another owner keeps it", Test: "TestDecideDeletion", Edits: []ruletest.Edit{
		{"decide.go", "return !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID)", "return false"}}},
	{Name: "another inventory keeps it", Test: "TestDecideDeletion|TestPruneIsSafe/an_object_that_another",
		Edits: []ruletest.Edit{
			{"decide.go", "return listed.UID != o.Self && !listed.Terminating", "return listed.UID == \"none\""}}},
	{Name: "an intent is a claim", Test: "TestPruneIsSafe/an_object_that_another", Edits: []ruletest.Edit{
		{"decide.go", "return listed.UID != o.Self && !listed.Terminating",
			"return listed.UID != o.Self && !listed.Terminating && listed.Applied"}}},
	{Name: "versions are no identity", Test: "TestDiff", Edits: []ruletest.Edit{
		{"diff.go", "a.Kind == b.Kind && a.Group == b.Group\n}\n\nfunc sameR",
			"a.Kind == b.Kind && a.Group == b.Group && a.Version == b.Version\n}\n\nfunc sameR"}}},

	// Prune.
	{Name: "a manifest that cannot be decoded is desired", Test: "TestPruneIsSafe/a_manifest_that_cannot_be_decoded",
		Edits: []ruletest.Edit{
			{"guards.go", "if r.unknown > 0 {", "if false {"}}},
	{Name: "a manifest that cannot be mapped is desired", Test: "TestPruneIsSafe/a_manifest_that_cannot_be_mapped",
		Edits: []ruletest.Edit{
			{"pruner.go", "if err != nil || m.Namespaced {", "if err == nil && m.Namespaced {"}}},
	{Name: "deletions have preconditions", Test: "TestPruneIsSafe/an_object_with_a_new_owner", Edits: []ruletest.Edit{
		{"pruner_object.go", "Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}, ",
			"Preconditions: &metav1.Preconditions{UID: &uid}, "},
		{"pruner_object.go", "live, uid, rv := item.live, item.live.GetUID(), item.live.GetResourceVersion()",
			"live, uid := item.live, item.live.GetUID()"}}},
	{Name: "a conflict is decided about again", Test: "TestPruneIsSafe/a_changed_object", Edits: []ruletest.Edit{
		{"pruner_object.go",
			"\tcase apierrors.IsConflict(err), apierrors.IsNotFound(err) && !IsTypeNotServed(err):\n\t\treturn errMoved\n",
			"\tcase apierrors.IsConflict(err), apierrors.IsNotFound(err) && " +
				"!IsTypeNotServed(err):\n\t\titem.finish(ActionDeleted, nil)\n\t\treturn nil\n"}}},
	{Name: "a denied deletion keeps its entry", Test: "TestPruneIsSafe/a_denied", Edits: []ruletest.Edit{
		{"pruner_object.go", "action == ActionDeleted || ", "action == ActionDeleted || action == ActionFailed || "}}},
	{Name: "an entry outlives its object", Test: "TestPruneIsSafe/an_entry", Edits: []ruletest.Edit{
		{"pruner_object.go", "return len(live.GetFinalizers()) == 0 && !core", "return !core"}}},
	{Name: "an entry stays while its object is being deleted", Test: "TestPruneIsSafe/an_entry", Edits: []ruletest.Edit{
		{"pruner_object.go", "action == ActionDeleted || ", "action == ActionDeleted || action == ActionPending || "}}},
	{Name: "an intent stays for the grace period", Test: "TestPruneIsSafe/an_intent", Edits: []ruletest.Edit{
		{"pruner_object.go", "!r.intents.settled(r.work.UID, item.change.Key, r.mode == modePlan) {", "false {"}}},
	{Name: "not served is not absent", Test: "TestPruneIsSafe/a_404", Edits: []ruletest.Edit{
		{"cluster.go", "\tcase IsTypeNotServed(err):\n", "\tcase false:\n"}}},
	{Name: "not served for long", Test: "TestPruneIsSafe/a_kind_that_is_not_served", Edits: []ruletest.Edit{
		{"guards.go", "now.Sub(a.since) >= p.cluster.opts.UnservedGrace &&", "true &&"}}},
	{Name: "not served many times", Test: "TestPruneIsSafe/a_kind_is_gone_only", Edits: []ruletest.Edit{
		{"guards.go", "&& a.times >= enoughTimes", "&& a.times >= 0"}}},
	{Name: "a CRD that exists may serve again", Test: "TestPruneIsSafe/a_kind_with_an_existing_CRD",
		Edits: []ruletest.Edit{
			{"guards.go", "return err == nil, err", "return false, err"}}},
	{Name: "another version does too", Test: "TestPruneIsSafe/an_object_is_found", Edits: []ruletest.Edit{
		{"internal/discovery/discovery.go", "try(group.PreferredVersion.Version)", "try(\"\")"},
		{"internal/discovery/discovery.go", "range group.Versions {", "range group.Versions[:0] {"}}},
	{Name: "the reverse order of apply", Test: "TestPruneIsSafe/the_order", Edits: []ruletest.Edit{
		{"pruner_object.go", "for rank := ranks - 1; rank >= 0; rank-- {", "for rank := range ranks {"}}},

	// The end of an AppliedWork.
	{Name: "an AppliedWork that keeps objects has a claim until it is gone",
		Test: "TestTeardownOfSharedObjects/(an_object_that_its_policy_keeps_stays$|the_namespace)", Edits: []ruletest.Edit{
			{"inventory.go", "(how == \"\" || how == byTeardown) &&", "how != byRelease &&"}}},
	{Name: "an object that Teardown keeps is kept from others",
		Test: "TestTeardownOfSharedObjects/.*_when_the_AppliedWork_is_gone", Edits: []ruletest.Edit{
			{"pruner_object.go", "|| r.mode == modeTeardown &&", "|| false &&"}}},
	{Name: "an AppliedWork that is gone keeps nothing from its successor",
		Test:  "TestTeardownOfSharedObjects/annotations_of_a_deleted",
		Edits: []ruletest.Edit{{"applier_record.go", "\tr.findGone(ctx)\n", ""}}},
	{Name: "an AppliedWork that exists keeps its marks", Test: "TestTeardownOfSharedObjects/annotations_of_an_existing",
		Edits: []ruletest.Edit{{"traces.go", "r.gone[uid] = !living[uid]", "r.gone[uid] = living != nil"}}},

	// The index for claims.
	{Name: "an AppliedWork is known in one version", Test: "TestIndex/a_new_entry", Edits: []ruletest.Edit{
		{"index.go", "if !ok || known.version != w.version {", "if !ok {"}}},
	{Name: "the index has no kinds", Test: "TestIndex/an_entry_without", Edits: []ruletest.Edit{
		{"index.go", "type identity struct{ group, namespace, name string }",
			"type identity struct{ group, namespace, name, kind string }"},
		{"index.go", "identity{k.Group, k.Namespace, k.Name}", "identity{k.Group, k.Namespace, k.Name, k.Kind}"},
		{"index.go", "identity{e.Group, e.Namespace, e.Name}", "identity{e.Group, e.Namespace, e.Name, e.Kind}"},
		{"index.go", "identity{name: e.Namespace}", "identity{name: e.Namespace, kind: \"Namespace\"}"}}},
	{Name: "a hash is no claim", Test: "TestIndex/another_kind", Edits: []ruletest.Edit{
		{"claims.go", "if in || keys[KeyOf(e.ResourceIdentifier)] {", "if in || len(keys) > 0 {"},
		{"claims.go", "key := KeyOf(e.ResourceIdentifier)\n",
			"key := KeyOf(e.ResourceIdentifier)\n\t\t\tkey.Kind = \"Secret\"\n"}}},
	{Name: "the index has namespaces", Test: "TestIndex/a_namespace_with", Edits: []ruletest.Edit{
		{"index.go", "hashes = append(hashes, x.hash(identity{name: e.Namespace}))", "_ = e"}}},
	{Name: "an AppliedWork that is gone leaves the index", Test: "TestIndex/a_deleted_AppliedWork", Edits: []ruletest.Edit{
		{"claims.go", "\tt.opts.Index.retain(works)\n", ""}}},
	{Name: "the index is bounded", Test: "TestIndex/the_index_does_not_grow", Edits: []ruletest.Edit{
		{"index.go", "x.size+size <= x.limit {", "x.size+size > 0 {"}}},
	{Name: "an AppliedWork is read in the listed version", Test: "TestIndex/a_version_other", Edits: []ruletest.Edit{
		{"works.go", "w != nil && w.version == work.ResourceVersion {", "w != nil {"}}},

	// Guards.
	{Name: "a namespace in use stays", Test: "TestGuardsBlockDeletion/a_namespace_with_desired", Edits: []ruletest.Edit{
		{"guards.go", "if used, ok := r.used[key.Name]; ok {", "if used, ok := r.used[key.Name]; ok && false {"}}},
	{Name: "a namespace in use by another AppliedWork stays", Test: "TestGuardsBlockDeletion/a_namespace_with_objects",
		Edits: []ruletest.Edit{
			{"guards.go", "if owner.UID != r.work.UID && !owner.Terminating {", "if false {"}}},
	{Name: "a namespace with unmanaged objects stays", Test: "TestGuardsBlockDeletion/a_namespace_with_an_object",
		Edits: []ruletest.Edit{
			{"content.go", "\tif len(owners) == 0 {\n\t\treturn true, nil", "\tif len(owners) == 0 {\n\t\treturn false, nil"}}},
	{Name: "a namespace with a kind that cannot be listed stays", Test: "TestGuardsBlockDeletion/a_namespace_with_a_kind",
		Edits: []ruletest.Edit{
			{"content.go", "\tif !slices.Contains(m.Verbs, \"list\") {", "\tif false {"}}},
	{Name: "a container waits for its content", Test: "TestGuardsBlockDeletion/a_namespace_with_pending",
		Edits: []ruletest.Edit{
			{"guards.go", "\tif r.mode == modePlan {\n", "\tif true {\n"}}},
	{Name: "the cluster's namespaces stay", Test: "TestGuardsBlockDeletion/a_namespace_of_the_cluster",
		Edits: []ruletest.Edit{
			{"guards.go", "\tcase r.isProtected(key):\n", "\tcase false:\n"}}},
	{Name: "a CRD with objects of others stays", Test: "TestGuardsBlockDeletion/a_CRD", Edits: []ruletest.Edit{
		{"guards.go", "return key, decision != Delete && decision != Wait, nil", "return key, false && decision != Wait, nil"}}},
	{Name: "an empty desired set is a mistake", Test: "TestGuardsBlockDeletion/an_empty", Edits: []ruletest.Edit{
		{"pruner.go", "if len(desired) == 0 && !opts.AllowEmpty && inv.count() > 0 {", "if false {"}}},
	{Name: "an AppliedWork is deleted as it was read", Test: "TestGuardsBlockDeletion/an_AppliedWork",
		Edits: []ruletest.Edit{
			{"collector.go", "options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, " +
				"ResourceVersion: &rv}}", "options := metav1.DeleteOptions{}\n\t\t_, _ = uid, rv"}}},
}

// TestRulesAreFound checks that each rule is found in the code. A change of a line that is a rule
// needs a change of the list of rules.
func TestRulesAreFound(t *testing.T) {
	for _, r := range rules {
		r.Without(t, ".")
	}
}
