// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/ruletest"
)

// appliedWorkRules are those that the campaigns, or a check on a real API server, must miss when they are taken out. The tests of
// package appliedwork show the other rules.
var appliedWorkRules = []ruletest.Rule{
	{Name: "the intent is recorded first", Test: campaignOnly, Edits: []ruletest.Edit{
		{"applier_record.go", "\t\t\t\tinv.put(item.intent(inv))\n", ""}}},
	{Name: "the owner reference is part of the request", Test: campaignOnly, Edits: []ruletest.Edit{
		{"managed.go", "if !f.unowned {", "if false {"}}},
	{Name: "deletions have preconditions", Test: campaignOnly, Edits: []ruletest.Edit{
		{"pruner_object.go", "Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}, ", "Preconditions: &metav1.Preconditions{UID: &uid}, "},
		{"pruner_object.go", "live, uid, rv := item.live, item.live.GetUID(), item.live.GetResourceVersion()", "live, uid := item.live, item.live.GetUID()"}}},
	{Name: "an owner reference is the evidence", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "\tcase !IsOwnedBy(live, owners.Self):\n\t\treturn Retain\n", ""}}},
	{Name: "another owner keeps it", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "return !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID)", "return false"}}},
	{Name: "not served is not absent", Test: campaignOnly, Edits: []ruletest.Edit{
		{"cluster.go", "\tcase IsTypeNotServed(err):\n", "\tcase false:\n"}}},
	{Name: "another AppliedWork keeps it", Test: handoverOnly, Edits: []ruletest.Edit{
		{"decide.go", "policy == PolicyOrphan || owners.claimed(live):", "policy == PolicyOrphan:"}}},
	{Name: "a refused adoption changes nothing", Test: "^TestAppliedWork$/^RefusedMigration$", Edits: []ruletest.Edit{
		{"applier_object.go", "\t\tif action == ActionAdopted {\n\t\t\tif err := r.mayTake", "\t\tif false {\n\t\t\tif err := r.mayTake"}}},
	{Name: "what is kept is not created again", Test: "^TestAppliedWork$/^NotRecreated$", Edits: []ruletest.Edit{
		{"applier_object.go", "isKept(item.source) || isKept(item.live) || hasTracesOfOthers", "hasTracesOfOthers"}}},
	{Name: "what has an object that stays, stays", Test: "^TestAppliedWork$/^ContainersOfLeft$", Edits: []ruletest.Edit{
		{"applier_object.go", "return other.id.Namespace == item.id.Name && r.stays(other)", "return false"}}},
	{Name: "the list for claims is consistent", Test: "^TestAppliedWorkIndex$/^Fresh$", Edits: []ruletest.Edit{
		{"works.go", "options := metav1.ListOptions{Limit: pageSize}", "options := metav1.ListOptions{Limit: pageSize, ResourceVersion: \"0\"}"}}},
	{Name: "AppliedWorks are read as they were listed", Test: "^TestAppliedWorkIndex$/^Moved$", Edits: []ruletest.Edit{
		{"works.go", "options := metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}", "options := metav1.ListOptions{}"},
		{"works.go", "w != nil && w.version == work.ResourceVersion {", "w != nil {"}}},
	{Name: "the index knows one version of an AppliedWork", Test: "^TestAppliedWorkIndex$/^SameAsList$", Edits: []ruletest.Edit{
		{"index.go", "if !ok || known.version != w.version {", "if !ok {"}}},
	{Name: "what stays has no reference of ours", Test: "^TestAppliedWork$/^OrphanOfOthers$", Edits: []ruletest.Edit{
		{"applier_object.go", "if err == nil && r.isUnowned(item) && IsOwnedBy(applied, r.work.UID) {", "if false {"}}},
}

const (
	campaignOnly = "^TestAppliedWork$/^Campaign$"
	handoverOnly = "^TestAppliedWork$/^Handover$"
	appliedWork  = "../../appliedwork" // its sources
)

// TestAppliedWorkRulesAreFound: who changes a line that is a rule tells the list of rules where it is now.
func TestAppliedWorkRulesAreFound(t *testing.T) {
	for _, r := range appliedWorkRules {
		r.Without(t, appliedWork)
	}
}
