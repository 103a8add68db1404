// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const keepPatch = `{"metadata":{"annotations":{"multicluster.x-k8s.io/prune":"disabled"}}}`

// checkKeptWithoutAgent: an annotation that a user sets on an applied object keeps the object when
// somebody deletes the AppliedWork. The next apply reads the annotation from the live object and
// removes the owner reference, even if the manifest is unchanged.
func checkKeptWithoutAgent(t *testing.T, g *ground) {
	const ns = "kept-alone"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	work := x.ensure(t, ns)
	kept, goes := configMapOf(ns, "kept", "1"), configMapOf(ns, "goes", "1")
	x.apply(t, work, kept, goes)
	if err := g.mergeAs(t, "someone", kept, keepPatch); err != nil {
		t.Fatal(err)
	}
	want(t, x.apply(t, work, kept, goes), "1 configured, 1 unchanged")
	want(t, x.apply(t, work, kept, goes), "2 unchanged")
	background := metav1.DeletePropagationBackground
	works := g.admin.Resource(v1alpha1.GroupVersionResource)
	if err := works.Delete(t.Context(), work.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	g.eventuallyGone(t, goes)
	time.Sleep(2 * time.Second) // the garbage collector would delete both at the same time
	if g.get(kept) == nil {
		t.Error("the garbage collector deleted an object with the annotation")
	}
}

// checkReleasedOnce: an object that stays is reported as released once, although its entry stays
// while its Namespace is recorded.
func checkReleasedOnce(t *testing.T, g *ground) {
	const ns = "released-once"
	x := g.plain(nil)
	work := x.ensure(t, ns)
	home, kept := namespaceOf(ns), configMapOf(ns, "kept", "1")
	x.apply(t, work, home, kept)
	if err := g.mergeAs(t, "someone", kept, keepPatch); err != nil {
		t.Fatal(err)
	}
	for _, expected := range []string{"1 released", "1 retained", "1 retained"} {
		plan, err := x.pruner.Plan(t.Context(), work, objects(home), appliedwork.PruneOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, plan, expected)
		changes, err := x.pruner.Prune(t.Context(), work, objects(home), appliedwork.PruneOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, expected)
	}
	for range 2 {
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		_ = g.blockedBy(t, err, home, appliedwork.BlockReasonNamespaceInUse)
		want(t, changes, "1 retained, 1 blocked")
	}
}
