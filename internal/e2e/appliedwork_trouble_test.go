// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// trouble holds an AppliedWork of one check, in the namespace that all checks share.
type trouble struct {
	*ground
	tools
	work *v1alpha1.AppliedWork
}

// checkTrouble: whatever a cluster does to a work, nothing is leaked and no foreign object changes.
func checkTrouble(t *testing.T, g *ground) {
	g.create(namespaceOf("trouble"))
	x := g.plain(func(o *appliedwork.Options) { o.UnservedGrace = 3 * time.Second })
	for name, run := range map[string]func(*testing.T, trouble){
		"bump": checkBump, "unserved": checkUnserved, "away": checkAway, "removed": checkRemoved,
		"held": checkHeld, "terminating": checkTerminating, "denied": checkDenied,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, trouble{g.in(t), x, x.ensure(t, name)})
		})
	}
}

func (x trouble) prune(t *testing.T, desired ...*unstructured.Unstructured) (*appliedwork.ChangeSet, error) {
	return x.pruner.Prune(t.Context(), x.work, desired, appliedwork.PruneOptions{AllowEmpty: true})
}

// pruned prunes until nothing is pending.
func (x trouble) pruned(t *testing.T) {
	t.Helper()
	eventually(t, "it is pruned", func() error {
		changes, err := x.prune(t)
		if err == nil && !changes.Done() {
			err = fmt.Errorf("%v", changes.Entries)
		}
		return err
	})
}

func (x trouble) entries(t *testing.T) int {
	t.Helper()
	entries, err := x.tracker.Entries(t.Context(), x.work)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// setVersions changes the versions of a CRD, and waits until the API server applies the change.
func (g *ground) setVersions(t *testing.T, crd *unstructured.Unstructured, change func(versions []any)) {
	t.Helper()
	eventually(t, "the CRD is changed", func() error {
		live := g.get(crd)
		versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
		change(versions)
		_ = unstructured.SetNestedSlice(live.Object, versions, "spec", "versions")
		changed, err := g.at(live).Update(t.Context(), live, metav1.UpdateOptions{})
		if err == nil {
			crd.Object = changed.Object
		}
		return err
	})
	g.eventuallyServed(t, crd)
}

func served(n int, is bool) func([]any) {
	return func(versions []any) { versions[n].(map[string]any)["served"] = is }
}

// checkBump: an object in another apiVersion is still the same object.
func checkBump(t *testing.T, x trouble) {
	old := gadgetOf("trouble", "bump")
	x.apply(t, x.work, old)
	before := x.get(old).GetUID()
	bumped := old.DeepCopy()
	bumped.SetAPIVersion("example.com/v2")
	changes := x.apply(t, x.work, bumped)
	if n := changes.Count(appliedwork.ActionCreated, appliedwork.ActionAdopted); n > 0 {
		t.Errorf("%v", changes.Entries)
	}
	changes, err := x.prune(t, bumped)
	if err != nil || len(changes.Entries) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
	if live := x.get(old); live == nil || live.GetUID() != before {
		t.Errorf("%v, want UID %s", live, before)
	}
	want(t, x.apply(t, x.work, bumped), "1 unchanged")
}

// checkUnserved: an object with a recorded version that is no longer served is deleted through
// another version.
func checkUnserved(t *testing.T, x trouble) {
	crd, old := customCRD("unserved.example.com", "Gadget", "v1", "v2"),
		customOf("unserved.example.com/v2", "Gadget", "trouble", "unserved")
	x.serve(t, crd)
	x.apply(t, x.work, old)
	x.setVersions(t, crd, served(1, false))
	x.pruned(t)
	if x.get(customOf("unserved.example.com/v1", "Gadget", "trouble", "unserved")) != nil {
		t.Error("it leaked")
	}
}

// checkAway: a CRD without a served version is served again with its objects.
func checkAway(t *testing.T, x trouble) {
	crd, gadget := customCRD("away.example.com", "Gadget", "v1"),
		customOf("away.example.com/v1", "Gadget", "trouble", "away")
	x.serve(t, crd)
	x.apply(t, x.work, gadget)
	x.setVersions(t, crd, served(0, false))
	var notServed *appliedwork.TypeNotServedError
	// twice the grace period
	for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(200 * time.Millisecond) {
		changes, _ := x.prune(t)
		if changes.Count(appliedwork.ActionDeleted) > 0 {
			t.Fatalf("%v: its CRD exists, so it may come back", changes.Entries)
		}
		if len(changes.Entries) > 0 {
			errors.As(changes.Entries[0].Err, &notServed)
		}
	}
	if notServed == nil || x.entries(t) != 1 {
		t.Errorf("%v, %d entries", notServed, x.entries(t))
	}
	x.setVersions(t, crd, served(0, true))
	x.pruned(t)
	if x.get(gadget) != nil {
		t.Error("it leaked")
	}
}

// checkRemoved: the entries of a kind with a deleted CRD are removed after the grace period.
func checkRemoved(t *testing.T, x trouble) {
	crd, thing := customCRD("removed.example.com", "Thing", "v1"),
		customOf("removed.example.com/v1", "Thing", "trouble", "thing")
	x.serve(t, crd)
	x.apply(t, x.work, thing)
	if err := x.at(crd).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.eventuallyGone(t, crd)
	eventually(t, "discovery has noticed", func() error {
		changes, _ := x.prune(t)
		if len(changes.Entries) != 1 || changes.Entries[0].Action != appliedwork.ActionPending {
			return fmt.Errorf("%v, want pending: not served is not gone", changes.Entries)
		}
		return nil
	})
	x.pruned(t)
	if x.entries(t) != 0 {
		t.Error("the entry stays after the grace period")
	}
}

// checkHeld: an entry stays while a finalizer keeps its object, and WaitGone waits for the object.
func checkHeld(t *testing.T, x trouble) {
	a, b := configMapOf("trouble", "held", "1"), configMapOf("trouble", "free", "1")
	a.SetFinalizers([]string{holdFinalizer})
	x.apply(t, x.work, a, b)
	changes, err := x.prune(t)
	if err != nil {
		t.Error(err)
	}
	want(t, changes, "1 deleted, 1 pending")
	if x.entries(t) != 1 {
		t.Error("the entry outlives its object")
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { done <- x.collector.WaitGone(ctx, x.work) }()
	if _, err := x.at(a).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	x.pruned(t)
}

// checkTerminating: no object is applied into a terminating namespace. All objects are applied
// after it is gone.
func checkTerminating(t *testing.T, x trouble) {
	ns, a := namespaceOf("terminating"), configMapOf("terminating", "a", "1")
	a.SetFinalizers([]string{holdFinalizer})
	x.apply(t, x.work, ns, a)
	if err := x.at(ns).Delete(t.Context(), ns.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := configMapOf("terminating", "b", "1")
	changes, err := x.applier.Apply(t.Context(), x.work, []*unstructured.Unstructured{ns, a, b},
		appliedwork.ApplyOptions{})
	if err != nil || changes.Count(appliedwork.ActionCreated) != 0 || changes.Count(appliedwork.ActionPending) == 0 {
		t.Errorf("%v, %v", changes, err)
	}
	eventually(t, "the finalizer goes", func() error {
		_, err := x.at(a).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		return err
	})
	x.eventuallyGone(t, ns)
	a.SetFinalizers(nil)
	eventually(t, "all is applied again", func() error {
		changes, err := x.applier.Apply(t.Context(), x.work, []*unstructured.Unstructured{ns, a, b},
			appliedwork.ApplyOptions{})
		if err == nil && !changes.Done() {
			err = fmt.Errorf("%v", changes.Entries)
		}
		return err
	})
	x.pruned(t)
	x.eventuallyGone(t, ns, a, b)
}

// checkDenied: a denied deletion keeps its entry, and stops no other.
func checkDenied(t *testing.T, x trouble) {
	a, b := configMapOf("trouble", "denied", "1"), configMapOf("trouble", "allowed", "1")
	x.apply(t, x.work, a, b)
	policy := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"deny"},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["DELETE"],"resources":["configmaps"]}]},
		"validations":[{"expression":"oldObject.metadata.name != 'denied'","message":"it is needed"}]}}`)
	binding := parsed(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"deny"},"spec":{"policyName":"deny","validationActions":["Deny"]}}`)
	x.create(policy)
	x.create(binding)
	eventually(t, "the policy is in force", func() error {
		if err := x.at(a).Delete(t.Context(), "denied", metav1.DeleteOptions{DryRun: []string{"All"}}); err == nil {
			return errors.New("it could be deleted")
		}
		return nil
	})
	changes, err := x.prune(t)
	if err == nil || x.entries(t) != 1 || x.get(b) != nil {
		t.Errorf("%v, %v: the denied one keeps its entry, the other goes", changes, err)
	}
	want(t, changes, "1 deleted, 1 failed")
	for _, obj := range []*unstructured.Unstructured{binding, policy} {
		if err := x.at(obj).Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	x.pruned(t)
	x.eventuallyGone(t, a)
}
