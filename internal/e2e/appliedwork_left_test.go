// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkOrphanWithoutAgent: objects that the policy orphans stay when somebody else deletes the
// AppliedWork. This is also true after the policy has changed, and after the object moved from
// another work.
func checkOrphanWithoutAgent(t *testing.T, g *ground) {
	g.create(namespaceOf("orphan"))
	x := g.plain(nil)
	orphan := appliedwork.Policies{Default: appliedwork.PolicyOrphan}
	selective := appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{
		{Resource: "configmaps", Namespace: "orphan", Name: "selected"},
	}}
	apply := func(work *v1alpha1.AppliedWork, policies appliedwork.Policies, list ...*unstructured.Unstructured) {
		t.Helper()
		opts := appliedwork.ApplyOptions{Policies: policies, Adoption: appliedwork.AdoptionAlways}
		if _, err := x.applier.Apply(t.Context(), work, list, opts); err != nil {
			t.Fatal(err)
		}
	}
	var stays, goes []*unstructured.Unstructured
	created, later, selected := configMapOf("orphan", "created", "1"), configMapOf("orphan", "later", "1"),
		configMapOf("orphan", "selected", "1")
	other, back, moved := configMapOf("orphan", "other", "1"), configMapOf("orphan", "back", "1"),
		configMapOf("orphan", "moved", "1")
	stays = append(stays, created, later, selected, moved)
	goes = append(goes, other, back)

	first, second := x.ensure(t, "orphan-1"), x.ensure(t, "orphan-2")
	apply(first, orphan, created)
	apply(first, appliedwork.Policies{}, later, created)
	apply(first, orphan, later, created)
	apply(second, selective, selected, other)
	third, fourth := x.ensure(t, "orphan-3"), x.ensure(t, "orphan-4")
	apply(third, orphan, back)
	apply(third, appliedwork.Policies{}, back, moved)
	apply(fourth, orphan, moved)
	changes, err := x.pruner.Prune(t.Context(), third, objects(back), appliedwork.PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "1 released")
	for _, work := range []*v1alpha1.AppliedWork{first, second, third, fourth} {
		if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	g.eventuallyGone(t, goes...)
	time.Sleep(2 * time.Second) // the garbage collector has processed the others by then
	for _, obj := range stays {
		if live := g.get(obj); live == nil || live.GetDeletionTimestamp() != nil {
			t.Errorf("%s is gone", obj.GetName())
		}
	}

	t.Run("unknown outcome", func(t *testing.T) {
		lost := true
		x := g.losing("orphan", func(r *http.Request) bool {
			return lost && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/configmaps")
		})
		work, a := x.ensure(t, "orphan-5"), configMapOf("orphan", "lost", "1")
		if _, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{Policies: orphan}); err == nil {
			t.Fatal("the answer was not lost")
		}
		lost = false
		changes, err := x.applier.Apply(t.Context(), work, objects(a), appliedwork.ApplyOptions{Policies: orphan})
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 unchanged")
		if changes, err = x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: orphan}); err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 released")
		if text := fmt.Sprint(g.get(a)); strings.Contains(text, string(work.UID)) {
			t.Errorf("traces of the AppliedWork: %s", text)
		}
	})
}

// checkOrphanOfShared: an object that the policy of one work orphans stays when that work and
// another work with the object end, in any order and way.
func checkOrphanOfShared(t *testing.T, g *ground) {
	g.create(namespaceOf("shared"))
	x := g.plain(nil)
	keeps := appliedwork.ApplyOptions{Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan},
		Adoption: appliedwork.AdoptionAlways}
	deletes := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}
	apply := func(t *testing.T, work *v1alpha1.AppliedWork, opts appliedwork.ApplyOptions, obj *unstructured.Unstructured,
		result string) {
		t.Helper()
		changes, err := x.applier.Apply(t.Context(), work, objects(obj), opts)
		if err != nil {
			t.Fatal(err)
		}
		if result != "" {
			want(t, changes, result)
		}
	}
	teardown := func(t *testing.T, work *v1alpha1.AppliedWork, policies appliedwork.Policies) {
		t.Helper()
		eventually(t, work.Name+" ends", func() error {
			opts := appliedwork.TeardownOptions{Policies: policies, Propagation: metav1.DeletePropagationForeground}
			changes, err := x.collector.Teardown(t.Context(), work, opts)
			if err == nil && !changes.Done() {
				err = fmt.Errorf("%v", changes.Entries)
			}
			return err
		})
	}
	remove := func(t *testing.T, work *v1alpha1.AppliedWork, _ appliedwork.Policies) {
		t.Helper()
		if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name      string
		keepsLast bool // ends last
		end       func(*testing.T, *v1alpha1.AppliedWork, appliedwork.Policies)
	}{
		{"teardown-first", false, teardown}, {"teardown-last", true, teardown}, {"deleted-first", false, remove},
		{"deleted-last", true, remove},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			obj, witness := configMapOf("shared", test.name, "1"), configMapOf("shared", test.name+"-witness", "1")
			keeper, other := x.ensure(t, "keeper-"+test.name), x.ensure(t, "other-"+test.name)
			apply(t, other, deletes, obj, "1 created")
			apply(t, keeper, keeps, obj, "1 adopted")
			if owners := g.get(obj).GetOwnerReferences(); len(owners) > 0 {
				t.Errorf("it is owned by %v", owners)
			}
			apply(t, other, deletes, obj, "")
			version := g.get(obj).GetResourceVersion()
			apply(t, keeper, keeps, obj, "1 unchanged")
			apply(t, other, deletes, obj, "1 unchanged")
			if g.get(obj).GetResourceVersion() != version {
				t.Error("the works write it in turn")
			}
			if test.keepsLast {
				test.end(t, other, appliedwork.Policies{})
				test.end(t, keeper, keeps.Policies)
			} else {
				test.end(t, keeper, keeps.Policies)
				if _, err := x.applier.Apply(t.Context(), other, objects(obj, witness), deletes); err != nil {
					t.Fatal(err)
				}
				test.end(t, other, appliedwork.Policies{})
				g.eventuallyGone(t, witness)
			}
			time.Sleep(2 * time.Second) // the garbage collector has processed it by then
			if live := g.get(obj); live == nil || live.GetDeletionTimestamp() != nil {
				t.Error("it was deleted")
			}
		})
	}
	t.Run("the policy changes", func(t *testing.T) {
		t.Parallel()
		obj := configMapOf("shared", "changes", "1")
		keeper, other := x.ensure(t, "keeper-changes"), x.ensure(t, "other-changes")
		apply(t, other, deletes, obj, "1 created")
		apply(t, keeper, keeps, obj, "1 adopted")
		apply(t, other, deletes, obj, "")
		apply(t, keeper, deletes, obj, "1 configured")
		apply(t, other, deletes, obj, "1 configured")
		if live := g.get(obj); !appliedwork.IsOwnedBy(live, keeper.UID) || !appliedwork.IsOwnedBy(live, other.UID) {
			t.Errorf("it is owned by %v", live.GetOwnerReferences())
		}
		teardown(t, keeper, appliedwork.Policies{})
		teardown(t, other, appliedwork.Policies{})
		g.eventuallyGone(t, obj)
	})
}

// checkKeptAtTheEnd: an object stays if its work ends with the policy Orphan, also if the policy was
// Delete at the last apply. Another work drops the object, or its Namespace, before or after the object
// is released.
func checkKeptAtTheEnd(t *testing.T, g *ground) {
	a := g.plain(nil)
	orphan := appliedwork.TeardownOptions{Policies: appliedwork.Policies{Default: appliedwork.PolicyOrphan}}
	for _, test := range []struct {
		name    string
		denied  bool // the release of the object, at first
		dropped func(ns, obj *unstructured.Unstructured) *unstructured.Unstructured
	}{
		{"object-before", true, func(_, obj *unstructured.Unstructured) *unstructured.Unstructured { return obj }},
		{"object-after", false, func(_, obj *unstructured.Unstructured) *unstructured.Unstructured { return obj }},
		{"namespace-before", true, func(ns, _ *unstructured.Unstructured) *unstructured.Unstructured { return ns }},
		{"namespace-after", false, func(ns, _ *unstructured.Unstructured) *unstructured.Unstructured { return ns }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := "kept-at-the-end-" + test.name
			ns, obj := namespaceOf(id), configMapOf(id, "a", "1")
			dropped := test.dropped(ns, obj)
			denied := false
			b := g.denying(test.name, func(r *http.Request) bool {
				return denied && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/configmaps/")
			})
			workA, workB := a.ensure(t, id+"-a"), b.ensure(t, id+"-b")
			if dropped != ns {
				g.create(ns)
			}
			always := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}
			if _, err := a.applier.Apply(t.Context(), workA, objects(dropped), always); err != nil {
				t.Fatal(err)
			}
			if _, err := b.applier.Apply(t.Context(), workB, objects(obj), always); err != nil {
				t.Fatal(err)
			}
			denied = test.denied
			if _, err := b.collector.Teardown(t.Context(), workB, orphan); (err != nil) != test.denied {
				t.Fatal(err)
			}
			denied = false
			for range 2 {
				changes, err := a.pruner.Prune(t.Context(), workA, nil, appliedwork.PruneOptions{AllowEmpty: true})
				t.Logf("%v, %v", changes.Entries, err)
				if _, err := b.collector.Teardown(t.Context(), workB, orphan); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second) // the garbage collector has processed them by then
			home, live := g.get(ns), g.get(obj)
			if home == nil || home.GetDeletionTimestamp() != nil || live == nil || len(live.GetOwnerReferences()) > 0 {
				t.Errorf("the Namespace or the object was deleted, or has an owner: %v, %v", home, live)
			}
		})
	}
}

// checkAdopted: an object that existed before the work is not deleted with the work, unless the
// policies require its deletion.
func checkAdopted(t *testing.T, g *ground) {
	x := g.plain(nil)
	always := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways, Force: true}
	setUp := func(t *testing.T, name string, opts appliedwork.ApplyOptions) (*v1alpha1.AppliedWork,
		*unstructured.Unstructured, *unstructured.Unstructured) {
		t.Helper()
		home, content := namespaceOf("adopted-"+name), configMapOf("adopted-"+name, "content", "1")
		g.create(home)
		g.create(content)
		work := x.ensure(t, "adopted-"+name)
		changes, err := x.applier.Apply(t.Context(), work, objects(home, configMapOf(home.GetName(), "ours", "1")), opts)
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 created, 1 adopted")
		if changes, err = x.applier.Apply(t.Context(), work, objects(home, configMapOf(home.GetName(), "ours", "1")),
			opts); err != nil {
			t.Fatal(err)
		}
		want(t, changes, "2 unchanged")
		return work, home, content
	}
	there := func(t *testing.T, list ...*unstructured.Unstructured) {
		t.Helper()
		time.Sleep(time.Second)
		for _, obj := range list {
			if live := g.get(obj); live == nil || live.GetDeletionTimestamp() != nil {
				t.Errorf("%s %s was deleted", obj.GetKind(), obj.GetName())
			}
		}
	}
	t.Run("teardown", func(t *testing.T) {
		work, home, content := setUp(t, "teardown", always)
		entries, err := x.tracker.Entries(t.Context(), work)
		if err != nil || len(entries) != 2 || !entries[0].Adopted || entries[1].Adopted {
			t.Errorf("%v, %v", entries, err)
		}
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 deleted, 1 released")
		there(t, home, content)
		if text := fmt.Sprint(g.get(home)); strings.Contains(text, string(work.UID)) {
			t.Errorf("traces of the AppliedWork: %s", text)
		}
	})
	t.Run("prune", func(t *testing.T) {
		work, home, content := setUp(t, "prune", always)
		changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 deleted, 1 released")
		there(t, home, content)
	})
	t.Run("without an agent", func(t *testing.T) {
		work, home, content := setUp(t, "collected", always)
		if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), work.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		g.eventuallyGone(t, configMapOf(home.GetName(), "ours", "1"))
		there(t, home, content)
	})
	t.Run("in a namespace of the work", func(t *testing.T) {
		home, content := namespaceOf("adopted-inside"), configMapOf("adopted-inside", "content", "1")
		work := x.ensure(t, "adopted-inside")
		want(t, x.apply(t, work, home), "1 created")
		g.create(content)
		if _, err := x.applier.Apply(t.Context(), work, objects(home, content), always); err != nil {
			t.Fatal(err)
		}
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{})
		if err != nil {
			t.Errorf("the namespace of an adopted object: %v", err)
		}
		want(t, changes, "2 released")
		there(t, home, content)
	})
	t.Run("as asked for", func(t *testing.T) {
		opts := always
		opts.Policies.Adopted = appliedwork.PolicyDelete
		work, home, content := setUp(t, "asked", opts)
		_, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: opts.Policies})
		_ = g.blockedBy(t, err, home, appliedwork.BlockReasonNamespaceNotEmpty)
		opts.Policies.Unmanaged = appliedwork.PolicyDelete
		if _, err := x.collector.Teardown(t.Context(), work,
			appliedwork.TeardownOptions{Policies: opts.Policies}); err != nil {
			t.Fatal(err)
		}
		g.eventuallyGone(t, home, content)
	})
}
