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

// TestAppliedWork is all that can share a cluster. Each check has names of its own.
func TestAppliedWork(t *testing.T) {
	g := newGround(t, groundOptions{})
	checks := []struct {
		name  string
		check func(*testing.T, *ground)
	}{
		{"Story", checkStory}, {"DeletedAlone", checkDeletedAlone}, {"Refusals", checkRefusals}, {"Guards", checkGuards},
		{"ReleaseAndEvict", checkReleaseAndEvict}, {"Audit", checkAudit}, {"Trouble", checkTrouble}, {"Reconciler", checkReconciler},
		{"Example", checkExample}, {"Shards", checkShards}, {"Handover", checkHandover}, {"Campaign", checkCampaign},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			shared := *g
			shared.t = t
			c.check(t, &shared)
		})
	}
}

// checkStory is the life of a work: apply, apply again, change, prune, tear down.
func checkStory(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, "story")
	objects := []*unstructured.Unstructured{
		namespaceOf("story"), configMapOf("story", "a", "1"), configMapOf("story", "b", "1"), clusterRoleOf("story"), gadgetOf("story", "g"),
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
