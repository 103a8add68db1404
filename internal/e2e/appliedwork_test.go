// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

func want(t *testing.T, changes *appliedwork.ChangeSet, text string) {
	t.Helper()
	if changes.String() != text {
		t.Errorf("%s, want %s: %v", changes, text, changes.Entries)
	}
}

// TestAppliedWork runs the checks that can share a cluster.
func TestAppliedWork(t *testing.T) {
	t.Parallel()
	var kinds []*unstructured.Unstructured
	for worker := range campaignWorkers {
		kinds = append(kinds, flipCRD(worker))
	}
	newGround(t, groundOptions{kinds: kinds}).run(t,
		check{"Campaign", checkCampaign}, check{"Handover", checkHandover}, check{"Example", checkExample},
		check{"Story", checkStory},
		check{"DeletedAlone", checkDeletedAlone}, check{"Reconciler", checkReconciler}, check{"Incomplete", checkIncomplete},
		check{"Refusals", checkRefusals},
		check{"ReleaseAndEvict", checkReleaseAndEvict},
		check{"RefusedApply", checkRefusedApply}, check{"WaitGoneAfterwards", checkWaitGoneAfterwards},
		check{"Detached", checkDetached},
		check{"FieldConflict", checkFieldConflict}, check{"FirstWrite", checkFirstWrite}, check{"Recreated", checkRecreated},
		check{"LargeAnnotations", checkLargeAnnotations}, check{"Protected", checkProtected},
		check{"SlowDiscovery", checkSlowDiscovery},
		check{"OrphanWithoutAgent", checkOrphanWithoutAgent}, check{"Adopted", checkAdopted},
		check{"Drift", checkDrift}, check{"Newcomer", checkNewcomer},
		check{"Owners", checkOwners}, check{"Strategies", checkStrategies}, check{"Plan", checkPlan},
		check{"RefusedMigration", checkRefusedMigration},
		check{"NotRecreated", checkNotRecreated}, check{"ContainersOfLeft", checkContainersOfLeft},
		check{"OrphanOfOthers", checkOrphanOfOthers},
		check{"ReconciledPolicies", checkReconciledPolicies}, check{"ForgivingKeys", checkForgivingKeys},
		check{"Kept", checkKept}, check{"Recreate", checkRecreate},
		check{"Migrate", checkMigrate}, check{"ApplySet", checkApplySet}, check{"IgnoreFields", checkIgnoreFields},
		check{"Executor", checkExecutor},
		check{"DroppedContents", checkDroppedContents}, check{"ProtectedKeys", checkProtectedKeys},
		check{"AnnotationBrink", checkAnnotationBrink},
		check{"Escalation", checkEscalation}, check{"OrphanOfShared", checkOrphanOfShared},
		check{"NamespaceContent", checkNamespaceContent}, check{"NamespaceDependents", checkNamespaceDependents},
		check{"OwnersWithoutCount", checkOwnersWithoutCount}, check{"OnlyRead", checkOnlyRead},
		check{"LargeApplySet", checkLargeApplySet},
		check{"ReconcilerInventory", checkReconcilerInventory},
		check{"NamespaceUnreadable", checkNamespaceUnreadable}, check{"BlockedResync", checkBlockedResync},
		check{"KeptWithoutAgent", checkKeptWithoutAgent}, check{"ReleasedOnce", checkReleasedOnce},
		check{"KeptAtTheEnd", checkKeptAtTheEnd}, check{"RepeatedCreate", checkRepeatedCreate},
		check{"TooLarge", checkTooLarge}, check{"ForeignReferences", checkForeignReferences},
		check{"Successor", checkSuccessor},
	)
}

// TestAppliedWorkLarge runs the checks with large inventories, and an audit that reads all kinds.
// No check on its cluster adds or removes kinds.
func TestAppliedWorkLarge(t *testing.T) {
	t.Parallel()
	newGround(t, groundOptions{noController: true}).run(t, check{"Unchanged", checkUnchanged},
		check{"Shards", checkShards}, check{"Audit", checkAudit})
}

// TestAppliedWorkUpstreamCRD uses the CRD of work-api, which prunes our additional fields. Every
// helper still works. It also has the checks that add and remove kinds, so they do not disturb the
// checks that read all kinds.
func TestAppliedWorkUpstreamCRD(t *testing.T) {
	t.Parallel()
	newGround(t, groundOptions{crd: workAPICRD()}).run(t,
		check{"Helpers", checkHelpers}, check{"Trouble", checkTrouble}, check{"Guards", checkGuards},
		check{"UnservedVersion", checkUnservedVersion}, check{"OrphanWithoutAgent", checkOrphanWithoutAgent},
		check{"Detached", checkDetached},
	)
}

// check is a part of a test that runs in parallel with others on one cluster. It has its own
// namespaces, works, policies and changed kinds.
type check struct {
	name string
	run  func(*testing.T, *ground)
}

func (g *ground) run(t *testing.T, checks ...check) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, g.in(t))
		})
	}
}

// in returns the ground for a part of its test.
func (g *ground) in(t *testing.T) *ground {
	shared := *g
	shared.t = t
	return &shared
}

// checkStory follows the life of a work: apply, apply again, change, prune, tear down.
func checkStory(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "story")
	objects := []*unstructured.Unstructured{
		namespaceOf("story"), configMapOf("story", "a", "1"), configMapOf("story", "b", "1"), clusterRoleOf("story"),
		gadgetOf("story", "g"),
	}
	want(t, x.apply(t, work, objects...), "5 created")
	want(t, x.apply(t, work, objects...), "5 unchanged")
	objects[1] = configMapOf("story", "a", "2")
	want(t, x.apply(t, work, objects...), "1 configured, 4 unchanged")
	objects[1].Object["data"] = map[string]any{"other": "3"}
	want(t, x.apply(t, work, objects...), "1 configured, 4 unchanged")
	want(t, x.apply(t, work, objects...), "5 unchanged")
	if data, _, _ := unstructured.NestedMap(g.get(objects[1]).Object, "data"); len(data) != 1 || data["other"] != "3" {
		t.Errorf("data = %v: a field that was taken out of the manifest goes, though it was created and not applied", data)
	}
	// Somebody else changes one of our fields.
	live := g.get(objects[2])
	live.Object["data"] = map[string]any{"value": "theirs"}
	if _, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if value, _, _ := unstructured.NestedString(g.get(objects[2]).Object, "data", "value"); value != "1" {
		t.Errorf("value = %q after a forced apply", value)
	}
	left := append([]*unstructured.Unstructured{}, objects[:2]...)
	plan, err := x.pruner.Plan(t.Context(), work, left, appliedwork.PruneOptions{})
	if err != nil || plan.Count(appliedwork.ActionDeleted) != 3 || g.get(objects[2]) == nil {
		t.Errorf("plan: %v, %v", plan, err)
	}
	pruned, err := x.pruner.Prune(t.Context(), work, left, appliedwork.PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, pruned, "3 deleted")
	for _, obj := range objects[2:] {
		if g.get(obj) != nil {
			t.Errorf("%s %s is there", obj.GetKind(), obj.GetName())
		}
	}
	for {
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if changes.Done() {
			break
		}
		if err := x.collector.WaitGone(t.Context(), work); err != nil {
			t.Fatal(err)
		}
	}
	g.eventuallyGone(t, objects...)
	g.eventuallyGone(t, parsed(`{"kind":"AppliedWork","metadata":{"name":"story"}}`))
}
