// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkDeletedAlone: an admin deletes only the AppliedWork, no agent runs, and all objects of both
// scopes are deleted.
func checkDeletedAlone(t *testing.T, g *ground) {
	x := g.plain(func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	work := x.ensure(t, "alone")
	objects := []*unstructured.Unstructured{namespaceOf("alone"), clusterRoleOf("alone-1"), clusterRoleOf("alone-2")}
	for i := range 20 {
		objects = append(objects, configMapOf("alone", fmt.Sprint("settings-", i), "1"),
			gadgetOf("alone", fmt.Sprint("gadget-", i)))
	}
	want(t, x.apply(t, work, objects...), fmt.Sprint(len(objects), " created"))
	bystander := g.create(configMapOf("default", "bystander", "1"))
	entries, err := x.tracker.Entries(t.Context(), work)
	if err != nil || len(entries) != len(objects) {
		t.Fatalf("%d entries, want %d: %v", len(entries), len(objects), err)
	}
	if n := len(g.shards(t, work)); n < 2 {
		t.Errorf("%d shards", n)
	}
	if err := g.admin.Resource(v1alpha1.GroupVersionResource).Delete(t.Context(), "alone",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// WaitGone returns with the inventory from before, although the AppliedWork is gone.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	work.Status.AppliedResources = entries
	if err := x.collector.WaitGone(ctx, work); err != nil {
		t.Error(err)
	}
	for _, obj := range objects {
		if g.get(obj) != nil {
			t.Errorf("%s %s is there", obj.GetKind(), obj.GetName())
		}
	}
	if g.get(bystander) == nil {
		t.Error("an object that was not ours is gone")
	}
	eventually(t, "the shards go", func() error {
		if shards := g.shards(t, work); len(shards) > 0 {
			return fmt.Errorf("%s is there", shards[0].GetName())
		}
		return nil
	})
}

// checkRefusals: each refusal is the documented error, and changes nothing.
func checkRefusals(t *testing.T, g *ground) {
	x := g.plain(nil)
	g.create(namespaceOf("refusals"))
	work := x.ensure(t, "refusals")
	a, b := configMapOf("refusals", "a", "1"), configMapOf("refusals", "b", "1")
	deleteAdopted := appliedwork.Policies{Adopted: appliedwork.PolicyDelete}
	apply := func(opts appliedwork.ApplyOptions, objects ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
		return x.applier.Apply(t.Context(), work, objects, opts)
	}
	t.Run("name collision", func(t *testing.T) {
		_, err := x.tracker.Ensure(t.Context(), "refusals",
			v1alpha1.AppliedWorkSpec{WorkName: "other", WorkNamespace: "cluster1"})
		if !errors.Is(err, appliedwork.ErrNameCollision) {
			t.Error(err)
		}
	})
	t.Run("immutable spec", func(t *testing.T) {
		live := g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"refusals"}}`))
		_ = unstructured.SetNestedField(live.Object, "other", "spec", "workName")
		if _, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{}); err == nil {
			t.Error("the spec of an AppliedWork could be changed")
		}
	})
	t.Run("duplicate", func(t *testing.T) {
		if _, err := apply(appliedwork.ApplyOptions{}, a, a); !errors.Is(err, appliedwork.ErrDuplicate) || g.get(a) != nil {
			t.Error(err)
		}
	})
	t.Run("bad objects do not stop the others", func(t *testing.T) {
		generated := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"refusals","generateName":"x-"}}`)
		unserved := parsed(`{"apiVersion":"nobody.example.com/v1","kind":"Thing","metadata":{"name":"x"}}`)
		nowhere := parsed(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)
		changes, err := apply(appliedwork.ApplyOptions{}, nil, generated, unserved, nowhere, a)
		var notServed *appliedwork.TypeNotServedError
		if !errors.Is(err, appliedwork.ErrInvalidObject) || !errors.Is(err, appliedwork.ErrGenerateName) ||
			!errors.As(err, &notServed) {
			t.Error(err)
		}
		want(t, changes, "1 created, 4 failed")
	})
	t.Run("adoption", func(t *testing.T) {
		g.create(b)
		var refused *appliedwork.AdoptionError
		if _, err := apply(appliedwork.ApplyOptions{}, a, b); !errors.As(err, &refused) || refused.UID != g.get(b).GetUID() {
			t.Error(err)
		}
		changes, err := apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned, Force: true,
			Policies: deleteAdopted}, a, b)
		if err != nil {
			t.Error(err)
		}
		want(t, changes, "1 unchanged, 1 adopted")
	})
	t.Run("ownership conflict", func(t *testing.T) {
		live := g.get(a)
		live.Object["data"] = map[string]any{"value": "theirs"}
		if _, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		var conflict *appliedwork.OwnershipConflictError
		if _, err := apply(appliedwork.ApplyOptions{Policies: deleteAdopted}, a, b); !errors.As(err, &conflict) ||
			len(conflict.Fields) == 0 {
			t.Error(err)
		}
	})
	t.Run("empty desired", func(t *testing.T) {
		if _, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{}); !errors.Is(err,
			appliedwork.ErrEmptyDesired) {
			t.Error(err)
		}
	})
	t.Run("undecodable manifest", func(t *testing.T) {
		var blocked *appliedwork.PruneBlockedError
		changes, err := x.pruner.Prune(t.Context(), work, []*unstructured.Unstructured{a, nil},
			appliedwork.PruneOptions{Policies: deleteAdopted})
		if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonManifestUnknown || g.get(b) == nil {
			t.Errorf("%v: %v", changes, err)
		}
	})
	t.Run("terminating", func(t *testing.T) {
		live := g.get(b)
		live.SetFinalizers([]string{holdFinalizer})
		if _, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		changes, err := x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: deleteAdopted})
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "1 deleted, 1 pending")
		if _, err := apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, appliedwork.ErrTerminating) || g.get(a) != nil {
			t.Error(err)
		}
	})
}

// checkGuards: Prune refuses protected deletions, with the reason.
func checkGuards(t *testing.T, g *ground) {
	x := g.plain(nil)
	work, other := x.ensure(t, "guards"), x.ensure(t, "other")
	thingCRD := customCRD("guards.example.com", "Thing", "v1")
	thing := func(name string) *unstructured.Unstructured {
		return customOf("guards.example.com/v1", "Thing", "guards", name)
	}
	a := configMapOf("guards", "a", "1")
	// One apply with a CRD and an object of its kind, and a protected namespace.
	changes, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{thing("ours"), thingCRD,
		namespaceOf("guards"), namespaceOf("guards-2"), a, namespaceOf("kube-public")},
		appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "5 created, 1 adopted")
	if owners := g.get(namespaceOf("kube-public")).GetOwnerReferences(); len(owners) != 0 {
		t.Errorf("a protected namespace got an owner: %v", owners)
	}
	want(t, x.apply(t, other, configMapOf("guards-2", "theirs", "1")), "1 created")
	theirs := g.create(thing("theirs"))
	changes, err = x.pruner.Prune(t.Context(), work, []*unstructured.Unstructured{a}, appliedwork.PruneOptions{})
	reasons := map[appliedwork.BlockReason]int{}
	for _, e := range changes.Entries {
		var blocked *appliedwork.PruneBlockedError
		if errors.As(e.Err, &blocked) {
			reasons[blocked.Reason]++
		}
	}
	if err == nil || reasons[appliedwork.BlockReasonNamespaceInUse] != 2 || reasons[appliedwork.BlockReasonCRDInUse] != 1 {
		t.Errorf("%v: %v", changes.Entries, err)
	}
	want(t, changes, "1 deleted, 1 released, 3 blocked") // our Thing; kube-public, which we recorded and never owned
	if g.get(thingCRD) == nil || g.get(namespaceOf("guards")) == nil || g.get(namespaceOf("guards-2")) == nil ||
		g.get(namespaceOf("kube-public")) == nil {
		t.Error("what a guard protects is gone")
	}
	// When the blocking object is deleted, the blocked objects are deleted too.
	if err := g.at(theirs).Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.pruner.Prune(t.Context(), other, nil, appliedwork.PruneOptions{AllowEmpty: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is pruned", func() error {
		changes, err := x.pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err == nil && !changes.Done() {
			err = fmt.Errorf("%v", changes.Entries)
		}
		return err
	})
	g.eventuallyGone(t, thingCRD, namespaceOf("guards"), namespaceOf("guards-2"))
}

// checkReleaseAndEvict: released objects stay, even after the AppliedWork is deleted. An eviction
// can be cancelled, and survives the process.
func checkReleaseAndEvict(t *testing.T, g *ground) {
	g.create(namespaceOf("evict"))
	x := g.plain(nil)
	work := x.ensure(t, "evict")
	a, role := configMapOf("evict", "a", "1"), clusterRoleOf("evict")
	x.apply(t, work, a, role)
	evicted, err := x.collector.Evict(t.Context(), work, appliedwork.EvictOptions{})
	if err != nil || evicted.Remaining < 59*time.Minute || evicted.Remaining > time.Hour {
		t.Fatalf("%+v, %v", evicted, err)
	}
	again, err := g.plain(nil).collector.Evict(t.Context(), work, appliedwork.EvictOptions{})
	if err != nil || again.Since.Sub(evicted.Since).Abs() > time.Second {
		t.Errorf("another process: %+v, %v, want what began at %s", again, err, evicted.Since)
	}
	if err := x.collector.CancelEviction(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	want(t, x.apply(t, work, a, role), "2 unchanged")
	changes, err := x.collector.Release(t.Context(), work, appliedwork.ReleaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "2 released")
	g.eventuallyGone(t, parsed(`{"kind":"AppliedWork","metadata":{"name":"evict"}}`))
	for _, obj := range []*unstructured.Unstructured{a, role} {
		if live := g.get(obj); live == nil || len(live.GetOwnerReferences()) > 0 {
			t.Errorf("%s: %v", obj.GetName(), live)
		}
	}
	// Adopted again, and evicted immediately.
	work = x.ensure(t, "evict")
	policies := appliedwork.Policies{Adopted: appliedwork.PolicyDelete}
	opts := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned, Policies: policies}
	if _, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{a, role}, opts); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grace period ends", func() error {
		opts := appliedwork.EvictOptions{GracePeriod: time.Nanosecond,
			Teardown: appliedwork.TeardownOptions{Policies: policies}}
		evicted, err := x.collector.Evict(t.Context(), work, opts)
		if err == nil && (evicted.Changes == nil || !evicted.Changes.Done()) {
			err = fmt.Errorf("%+v", evicted)
		}
		return err
	})
	g.eventuallyGone(t, a, role)
}

// checkAudit: an audit finds unrecorded objects, deleted objects, and objects that are no longer
// ours.
func checkAudit(t *testing.T, g *ground) {
	g.create(namespaceOf("audit"))
	x := g.plain(nil)
	work := x.ensure(t, "audit")
	kept, missing, foreign := configMapOf("audit", "kept", "1"), configMapOf("audit", "missing", "1"),
		configMapOf("audit", "foreign", "1")
	x.apply(t, work, kept, missing, foreign)
	untracked := configMapOf("audit", "untracked", "1")
	appliedwork.SetOwnerReference(untracked, work)
	g.create(untracked)
	if err := g.at(missing).Delete(t.Context(), "missing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.at(foreign).Patch(t.Context(), "foreign", types.MergePatchType,
		[]byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	whole := g.plain(func(o *appliedwork.Options) { o.Metadata = nil })
	same, err := whole.collector.Audit(t.Context(), work, appliedwork.AuditOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := x.collector.Audit(t.Context(), work, appliedwork.AuditOptions{Record: true})
	if d := cmp.Diff(report, same); d != "" {
		t.Errorf("the metadata of objects does not say the same: %s", d)
	}
	if err != nil || len(report.Untracked) != 1 || len(report.Missing) != 1 || len(report.Foreign) != 1 ||
		len(report.Unread) != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if report.Untracked[0].Name != "untracked" || report.Missing[0].Name != "missing" ||
		report.Foreign[0].Name != "foreign" {
		t.Errorf("%+v", report)
	}
	changes, err := x.pruner.Prune(t.Context(), work, []*unstructured.Unstructured{kept}, appliedwork.PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "2 deleted, 1 released")
	if g.get(untracked) != nil || g.get(foreign) == nil || g.get(kept) == nil {
		t.Error("the untracked object goes, the other two stay")
	}
}
