// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkSuccessor: somebody deletes an AppliedWork with the policy Orphan, and its objects stay. An
// AppliedWork that adopts them later conflicts only with existing field managers, and may delete
// the objects.
func checkSuccessor(t *testing.T, g *ground) {
	const ns = "successor"
	g.create(namespaceOf(ns))
	x := g.plain(nil)
	orphan := appliedwork.ApplyOptions{Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan}}
	adopts := appliedwork.ApplyOptions{
		Adoption: appliedwork.AdoptionIfUnowned, Policies: appliedwork.Policies{Adopted: appliedwork.PolicyDelete},
	}
	works := g.admin.Resource(v1alpha1.GroupVersionResource)
	apply := func(
		t *testing.T, work *v1alpha1.AppliedWork, obj *unstructured.Unstructured, opts appliedwork.ApplyOptions,
		result string,
	) {
		t.Helper()
		changes, err := x.applier.Apply(t.Context(), work, objects(obj), opts)
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, result)
	}
	predecessor := func(t *testing.T, obj *unstructured.Unstructured) *v1alpha1.AppliedWork {
		t.Helper()
		work := x.ensure(t, ns+"-"+obj.GetName())
		apply(t, work, obj, orphan, "1 created")
		if err := works.Delete(t.Context(), work.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		g.eventuallyGone(t, parsed(`{"kind":"AppliedWork","metadata":{"name":%q}}`, work.Name))
		return work
	}
	for _, test := range []struct {
		name, value string // the applied value of the successor
		labels      string // labels that somebody patches
		strategy    appliedwork.Strategy
	}{
		{name: "same", value: "1"},
		{name: "changed", value: "2"},
		{name: "managed", value: "2", labels: `{"metadata":{"labels":{"theirs":"1"}}}`},
		{name: "create-only", value: "2", strategy: appliedwork.StrategyCreateOnly},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opts, obj := adopts, configMapOf(ns, test.name, test.value)
			before := predecessor(t, configMapOf(ns, test.name, "1"))
			if test.labels != "" {
				if err := g.mergeAs(t, "someone", obj, test.labels); err != nil {
					t.Fatal(err)
				}
			}
			key, err := appliedwork.Identify(obj)
			if err != nil {
				t.Fatal(err)
			}
			opts.ByKey = map[appliedwork.Key]appliedwork.ObjectOptions{key: {Strategy: test.strategy}}
			work := x.ensure(t, before.Name)
			plan, err := x.applier.Plan(t.Context(), work, objects(obj), opts)
			if err != nil {
				t.Fatal(err)
			}
			want(t, plan, "1 adopted")
			apply(t, work, obj, opts, "1 adopted")
			live := g.get(obj)
			if text := fmt.Sprint(live); strings.Contains(text, string(before.UID)) || !appliedwork.IsOwnedBy(live, work.UID) {
				t.Errorf("it has traces of the AppliedWork that is gone, or has no owner: %s", text)
			}
			if test.labels != "" && live.GetLabels()["theirs"] != "1" {
				t.Errorf("the labels are %v", live.GetLabels())
			}
			if planned := plan.Entries[0].Live; fmt.Sprint(planned.GetAnnotations()) != fmt.Sprint(live.GetAnnotations()) {
				t.Errorf("planned are the annotations %v, and applied %v", planned.GetAnnotations(), live.GetAnnotations())
			}
			apply(t, work, obj, opts, "1 unchanged")
			prune := appliedwork.PruneOptions{AllowEmpty: true, Policies: opts.Policies}
			changes, err := x.pruner.Prune(t.Context(), work, nil, prune)
			if err != nil {
				t.Fatal(err)
			}
			want(t, changes, "1 deleted")
		})
	}
	t.Run("living", func(t *testing.T) {
		t.Parallel()
		work, other := x.ensure(t, ns+"-living"), x.ensure(t, ns+"-other")
		apply(t, work, configMapOf(ns, "living", "1"), orphan, "1 created")
		before := g.get(configMapOf(ns, "living", "")).GetResourceVersion()
		var conflict *appliedwork.OwnershipConflictError
		changes, err := x.applier.Apply(t.Context(), other, objects(configMapOf(ns, "living", "2")), adopts)
		if live := g.get(configMapOf(ns, "living", "")); !errors.As(err, &conflict) || live.GetResourceVersion() != before {
			t.Errorf("%v, %v, want a conflict with %s: %v", changes, err, work.Name, live)
		}
	})
}
