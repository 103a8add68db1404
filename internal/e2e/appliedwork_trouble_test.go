// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkTrouble is what a cluster does to a work: each step ends with nothing leaked and nothing foreign touched.
func checkTrouble(t *testing.T, g *ground) {
	g.create(namespaceOf("trouble"))
	x := g.plain(func(o *appliedwork.Options) { o.UnservedGrace = 3 * time.Second })
	prune := func(t *testing.T, work *v1alpha1.AppliedWork, desired ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
		return x.pruner.Prune(t.Context(), work, desired, appliedwork.PruneOptions{AllowEmpty: true})
	}
	pruned := func(t *testing.T, work *v1alpha1.AppliedWork, desired ...*unstructured.Unstructured) {
		t.Helper()
		eventually(t, "it is pruned", func() error {
			changes, err := prune(t, work, desired...)
			if err == nil && !changes.Done() {
				err = fmt.Errorf("%v", changes.Entries)
			}
			return err
		})
	}
	setCRD := func(t *testing.T, name string, change func(versions []any)) {
		t.Helper()
		eventually(t, "the CRD is changed", func() error {
			crd := g.get(parsed(`{"kind":"CustomResourceDefinition","metadata":{"name":%q}}`, name))
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			change(versions)
			_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
			_, err := g.at(crd).Update(t.Context(), crd, metav1.UpdateOptions{})
			return err
		})
	}
	entries := func(t *testing.T, work *v1alpha1.AppliedWork) int {
		t.Helper()
		entries, err := x.tracker.Entries(t.Context(), work)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}

	t.Run("apiVersion bump keeps the UID", func(t *testing.T) {
		work, old := x.ensure(t, "bump"), gadgetOf("trouble", "bump")
		x.apply(t, work, old)
		before := g.get(old).GetUID()
		bumped := old.DeepCopy()
		bumped.SetAPIVersion("example.com/v2")
		changes := x.apply(t, work, bumped)
		if n := changes.Count(appliedwork.ActionCreated, appliedwork.ActionAdopted); n > 0 {
			t.Errorf("%v", changes.Entries)
		}
		changes, err := prune(t, work, bumped)
		if err != nil || len(changes.Entries) > 0 {
			t.Errorf("%v, %v", changes, err)
		}
		if live := g.get(old); live == nil || live.GetUID() != before {
			t.Errorf("%v, want UID %s", live, before)
		}
		want(t, x.apply(t, work, bumped), "1 unchanged")
	})

	t.Run("version no longer served", func(t *testing.T) {
		work, old := x.ensure(t, "unserved"), gadgetOf("trouble", "unserved")
		old.SetAPIVersion("example.com/v2")
		x.apply(t, work, old)
		setCRD(t, "gadgets.example.com", func(versions []any) { versions[1].(map[string]any)["served"] = false })
		eventually(t, "v2 is not served", func() error {
			if _, err := g.admin.Resource(gadgets.GroupResource().WithVersion("v2")).Namespace("trouble").List(t.Context(), metav1.ListOptions{}); err == nil {
				return errors.New("it is served")
			} else if !appliedwork.IsTypeNotServed(err) {
				return fmt.Errorf("IsTypeNotServed does not know %w", err)
			}
			return nil
		})
		pruned(t, work)
		if g.get(gadgetOf("trouble", "unserved")) != nil {
			t.Error("an object whose recorded version is not served is deleted through another")
		}
	})

	t.Run("CRD without a served version and back", func(t *testing.T) {
		work, gadget := x.ensure(t, "away"), gadgetOf("trouble", "away")
		x.apply(t, work, gadget)
		setCRD(t, "gadgets.example.com", func(versions []any) { versions[0].(map[string]any)["served"] = false })
		var notServed *appliedwork.TypeNotServedError
		for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(200 * time.Millisecond) { // twice the grace period
			changes, err := prune(t, work)
			if changes.Count(appliedwork.ActionDeleted) > 0 {
				t.Fatalf("%v: its CRD exists, so it may come back", changes.Entries)
			}
			if len(changes.Entries) > 0 {
				errors.As(changes.Entries[0].Err, &notServed)
			}
			_ = err
		}
		if notServed == nil || entries(t, work) != 1 {
			t.Errorf("%v, %d entries", notServed, entries(t, work))
		}
		setCRD(t, "gadgets.example.com", func(versions []any) { versions[0].(map[string]any)["served"] = true })
		eventually(t, "it is served again", func() error {
			_, err := g.at(gadget).Get(t.Context(), "away", metav1.GetOptions{})
			return err
		})
		pruned(t, work)
		if g.get(gadget) != nil {
			t.Error("it leaked")
		}
	})

	t.Run("CRD removed for good", func(t *testing.T) {
		work := x.ensure(t, "removed")
		crd := parsed(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.guards.example.com"},
			"spec":{"group":"guards.example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		thing := parsed(`{"apiVersion":"guards.example.com/v1","kind":"Thing","metadata":{"namespace":"trouble","name":"thing"}}`)
		g.create(crd)
		eventually(t, "the kind is served", func() error {
			_, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{thing}, appliedwork.ApplyOptions{})
			return err
		})
		if err := g.at(crd).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		g.eventuallyGone(t, crd)
		eventually(t, "discovery has noticed", func() error {
			changes, _ := prune(t, work)
			if len(changes.Entries) != 1 || changes.Entries[0].Action != appliedwork.ActionPending {
				return fmt.Errorf("%v, want pending: not served is not gone", changes.Entries)
			}
			return nil
		})
		pruned(t, work)
		if entries(t, work) != 0 {
			t.Error("the entry stays after the grace period")
		}
	})

	t.Run("finalizer held", func(t *testing.T) {
		work, a, b := x.ensure(t, "held"), configMapOf("trouble", "held", "1"), configMapOf("trouble", "free", "1")
		a.SetFinalizers([]string{holdFinalizer})
		x.apply(t, work, a, b)
		changes, err := prune(t, work)
		if err != nil {
			t.Error(err)
		}
		want(t, changes, "1 deleted, 1 pending")
		if entries(t, work) != 1 {
			t.Error("the entry outlives its object")
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { done <- x.collector.WaitGone(ctx, work) }()
		if _, err := g.at(a).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		pruned(t, work)
	})

	t.Run("namespace terminating", func(t *testing.T) {
		work := x.ensure(t, "terminating")
		ns, a := namespaceOf("terminating"), configMapOf("terminating", "a", "1")
		a.SetFinalizers([]string{holdFinalizer})
		x.apply(t, work, ns, a)
		if err := g.at(ns).Delete(t.Context(), ns.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b := configMapOf("terminating", "b", "1")
		changes, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{ns, a, b}, appliedwork.ApplyOptions{})
		if err != nil || changes.Count(appliedwork.ActionCreated) != 0 || changes.Count(appliedwork.ActionPending) == 0 {
			t.Errorf("%v, %v", changes, err)
		}
		eventually(t, "the finalizer goes", func() error {
			_, err := g.at(a).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		})
		g.eventuallyGone(t, ns)
		a.SetFinalizers(nil)
		eventually(t, "all is applied again", func() error {
			changes, err := x.applier.Apply(t.Context(), work, []*unstructured.Unstructured{ns, a, b}, appliedwork.ApplyOptions{})
			if err == nil && !changes.Done() {
				err = fmt.Errorf("%v", changes.Entries)
			}
			return err
		})
		pruned(t, work)
		g.eventuallyGone(t, ns, a, b)
	})

	t.Run("delete denied by an admission policy", func(t *testing.T) {
		work, a, b := x.ensure(t, "denied"), configMapOf("trouble", "denied", "1"), configMapOf("trouble", "allowed", "1")
		x.apply(t, work, a, b)
		policy := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"deny"},"spec":{"failurePolicy":"Fail",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["DELETE"],"resources":["configmaps"]}]},
			"validations":[{"expression":"oldObject.metadata.name != 'denied'","message":"it is needed"}]}}`)
		binding := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"deny"},"spec":{"policyName":"deny","validationActions":["Deny"]}}`)
		g.create(policy)
		g.create(binding)
		eventually(t, "the policy is in force", func() error {
			if err := g.at(a).Delete(t.Context(), "denied", metav1.DeleteOptions{DryRun: []string{"All"}}); err == nil {
				return errors.New("it could be deleted")
			}
			return nil
		})
		changes, err := prune(t, work)
		if err == nil || entries(t, work) != 1 || g.get(b) != nil {
			t.Errorf("%v, %v: the denied one keeps its entry, the other goes", changes, err)
		}
		want(t, changes, "1 deleted, 1 failed")
		for _, obj := range []*unstructured.Unstructured{binding, policy} {
			if err := g.at(obj).Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pruned(t, work)
		g.eventuallyGone(t, a)
	})
}

// TestAppliedWorkUpstreamCRD: the CRD of work-api prunes what we add, and every helper works on it all the same.
func TestAppliedWorkUpstreamCRD(t *testing.T) {
	crd := v1alpha1.CRD()
	crd.SetAnnotations(nil)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version := versions[0].(map[string]any)
	delete(version, "additionalPrinterColumns")
	status, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "status", "properties")
	for name := range status {
		if name != "appliedResources" {
			delete(status, name)
		}
	}
	_ = unstructured.SetNestedMap(version, status, "schema", "openAPIV3Schema", "properties", "status", "properties")
	unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations")
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	g := newGround(t, groundOptions{crd: crd})
	g.create(namespaceOf("upstream"))
	x := g.plain(func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	g.keepsUpstreamObjects(t, x)
	work := x.ensure(t, "upstream")
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, configMapOf("upstream", fmt.Sprint("a-", i), "1"))
	}
	want(t, x.apply(t, work, objects...), "12 created")
	want(t, x.apply(t, work, objects...), "12 unchanged")
	list, err := g.admin.Resource(v1alpha1.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < 2 {
		t.Errorf("%d AppliedWorks, %v, want shards", len(list.Items), err)
	}
	for i := range list.Items {
		status, _ := list.Items[i].Object["status"].(map[string]any)
		if len(status) > 1 {
			t.Errorf("the CRD kept %v", status)
		}
		if text, err := json.Marshal(status); err != nil || len(text) > 1<<10 {
			t.Errorf("a shard of %d bytes, %v", len(text), err)
		}
	}
	before := len(readAudit(t, g.audit))
	want(t, x.apply(t, work, objects...), "12 unchanged")
	if after := len(readAudit(t, g.audit)); after != before {
		t.Errorf("%d writes for what is unchanged", after-before)
	}
	changes, err := x.pruner.Prune(t.Context(), work, objects[:6], appliedwork.PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "6 deleted")
	if evicted, err := x.collector.Evict(t.Context(), work, appliedwork.EvictOptions{}); err != nil || evicted.Remaining == 0 {
		t.Errorf("%+v, %v", evicted, err)
	}
	if err := x.collector.CancelEviction(t.Context(), work); err != nil {
		t.Error(err)
	}
	if report, err := x.collector.Audit(t.Context(), work, appliedwork.AuditOptions{}); err != nil || len(report.Untracked)+len(report.Missing)+len(report.Foreign) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if changes, err = x.collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{}); err != nil || !changes.Done() {
		t.Errorf("%v, %v", changes, err)
	}
	g.eventuallyGone(t, append(objects, parsed(`{"kind":"AppliedWork","metadata":{"name":"upstream"}}`))...)
	eventually(t, "no AppliedWork is left", func() error {
		list, err := g.admin.Resource(v1alpha1.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
}

// keepsUpstreamObjects stores the objects of work-api's own documentation, and reads them through a Tracker.
func (g *ground) keepsUpstreamObjects(t *testing.T, x tools) {
	t.Helper()
	content, err := os.ReadFile("../../appliedwork/testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Objects []map[string]any }
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, o := range vectors.Objects {
		obj := &unstructured.Unstructured{Object: o}
		stored := g.create(obj)
		if obj.Object["status"] != nil {
			stored.Object["status"] = obj.Object["status"]
			if stored, err = g.at(obj).UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var typed v1alpha1.AppliedWork
		text, _ := json.Marshal(stored.Object)
		if err := json.Unmarshal(text, &typed); err != nil {
			t.Fatal(err)
		}
		entries, err := x.tracker.Entries(t.Context(), &typed)
		if err != nil || len(entries) != len(typed.Status.AppliedResources) {
			t.Errorf("%s: %v, %v", typed.Name, entries, err)
		}
		if d := cmp.Diff(obj.Object["status"], stored.Object["status"], numbers); d != "" {
			t.Errorf("%s: %s", typed.Name, d)
		}
		if err := g.at(obj).Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers: one decoder makes floats of all numbers, the other integers.
var numbers = cmp.FilterValues(func(a, b any) bool { return number(a) && number(b) }, cmp.Comparer(func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))

func number(v any) bool {
	switch v.(type) {
	case float64, int64:
		return true
	}
	return false
}
