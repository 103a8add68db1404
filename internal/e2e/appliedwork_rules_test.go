// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/ruletest"
)

// appliedWorkRules are those that the campaigns must miss when they are taken out: what shows that their judge bites. The tests
// of package appliedwork show each rule by itself; these are the ones that only rivals, late requests and the log of a real
// API server make visible together.
var appliedWorkRules = []ruletest.Rule{
	{Name: "the intent is recorded first", Test: campaignOnly, Edits: []ruletest.Edit{
		{"applier_record.go", "\t\t\tif !item.done {\n\t\t\t\tinv.put(item.intent(inv))", "\t\t\tif false {\n\t\t\t\tinv.put(item.intent(inv))"}}},
	{Name: "the owner reference is part of the request", Test: campaignOnly, Edits: []ruletest.Edit{
		{"managed.go", "if !unowned {", "if false {"}}},
	{Name: "deletions have preconditions", Test: campaignOnly, Edits: []ruletest.Edit{
		{"pruner_object.go", "Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}, ", "Preconditions: &metav1.Preconditions{UID: &uid}, "},
		{"pruner_object.go", "live, uid, rv := item.live, item.live.GetUID(), item.live.GetResourceVersion()", "live, uid := item.live, item.live.GetUID()"}}},
	{Name: "an owner reference is the evidence", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "\tcase !IsOwnedBy(live, owners.Self):\n\t\treturn Retain\n", ""}}},
	{Name: "another owner keeps it", Test: campaignOnly, Edits: []ruletest.Edit{
		{"decide.go", "if !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID) {", "if false {"}}},
	{Name: "not served is not absent", Test: campaignOnly, Edits: []ruletest.Edit{
		{"cluster.go", "\tcase IsTypeNotServed(err):\n", "\tcase false:\n"}}},
	{Name: "another AppliedWork keeps it", Test: handoverOnly, Edits: []ruletest.Edit{
		{"decide.go", "policy == PolicyOrphan || owners.claimed(live.GetOwnerReferences()):", "policy == PolicyOrphan:"}}},
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
