// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// recorder sends the kind and reason of each event.
type recorder chan string

func (r recorder) Eventf(_ runtime.Object, kind, reason, _ string, _ ...any) {
	r <- kind + " " + reason
}

// checkReconciler runs a manager. Works are applied, refusals become events and conditions, and the
// loss of the hub deletes nothing. An eviction is cancelled, and a work that the hub removes is
// torn down.
func checkReconciler(t *testing.T, g *ground) {
	g.create(namespaceOf("reconciler"))
	var hub atomic.Pointer[func() (reconciler.Want, error)]
	say := func(objects []*unstructured.Unstructured, change func(*reconciler.Want)) {
		answer := func() (reconciler.Want, error) {
			want := reconciler.Want{Objects: objects}
			if change != nil {
				change(&want)
			}
			return want, nil
		}
		hub.Store(&answer)
	}
	a, b, foreign := configMapOf("reconciler", "a", "1"), configMapOf("reconciler", "b", "1"),
		configMapOf("reconciler", "foreign", "1")
	g.create(foreign)
	say([]*unstructured.Unstructured{a, b, foreign}, nil)
	events := make(recorder, 1000)
	r, err := reconciler.New(reconciler.Options{
		Options: appliedwork.Options{Client: g.admin, Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config()),
			Events: events},
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return (*hub.Load())()
		}),
		Owns:       func(work *v1alpha1.AppliedWork) bool { return work.Name == "reconciler" },
		RetryAfter: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(g.Config(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		// excludes the works of other checks
		Cache: cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "reconciler")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	background(t, manager.Start)
	work, err := r.Tracker().Ensure(t.Context(), "reconciler", v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	nudge := 0
	reconcile := func() { // the controller watches for an annotation
		nudge++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/nudge":"%d"}}}`, nudge)
		if _, err := g.admin.Resource(v1alpha1.GroupVersionResource).Patch(t.Context(), work.Name,
			"application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	there := func(what string, objects ...*unstructured.Unstructured) {
		t.Helper()
		for _, obj := range objects {
			eventually(t, what, func() error {
				live, err := g.at(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
				if err == nil && !appliedwork.IsOwnedBy(live, work.UID) {
					err = errors.New("it is not owned")
				}
				return err
			})
		}
	}
	there("all but the foreign object is applied", a, b)
	if got := <-events; got != "Warning AdoptionRefused" {
		t.Errorf("event %s", got)
	}
	eventually(t, "the condition says why", func() error {
		live := g.get(parsed(`{"kind":"AppliedWork","metadata":{"name":"reconciler"}}`))
		text := fmt.Sprint(live.Object["status"])
		if !strings.Contains(text, "AdoptionRefused") || !strings.Contains(text, "resourceCount:2") {
			return errors.New(text)
		}
		return nil
	})
	say([]*unstructured.Unstructured{a}, nil)
	reconcile()
	g.eventuallyGone(t, b)
	lost := func() (reconciler.Want, error) { return reconciler.Want{}, errors.New("the hub cannot be reached") }
	hub.Store(&lost)
	reconcile()
	say([]*unstructured.Unstructured{a}, func(w *reconciler.Want) { w.Evicted = true })
	reconcile()
	evicting := func() string {
		return g.get(parsed(
			`{"kind":"AppliedWork","metadata":{"name":"reconciler"}}`)).GetAnnotations()[v1alpha1.AnnotationEvictionStart]
	}
	eventually(t, "the eviction begins", func() error {
		if evicting() == "" {
			return errors.New("it has not")
		}
		return nil
	})
	there("it stays for the grace period", a)
	say([]*unstructured.Unstructured{a}, nil)
	reconcile()
	eventually(t, "the eviction is cancelled", func() error {
		if evicting() != "" {
			return errors.New("it is not")
		}
		return nil
	})
	say(nil, func(w *reconciler.Want) { w.Removed = true })
	reconcile()
	g.eventuallyGone(t, a, parsed(`{"kind":"AppliedWork","metadata":{"name":"reconciler"}}`))
	if g.get(foreign) == nil {
		t.Error("the foreign object is gone")
	}
}

// checkIncomplete: a work whose apply is not complete is pruned only if the options ask for it.
func checkIncomplete(t *testing.T, g *ground) {
	g.create(namespaceOf("incomplete"))
	foreign := g.create(configMapOf("incomplete", "foreign", "1"))
	for name, opts := range map[string]reconciler.Options{"default": {}, "asked": {PruneIncomplete: true}} {
		t.Run(name, func(t *testing.T) {
			older := configMapOf("incomplete", name, "1")
			desired := objects(older)
			opts.Desired = reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
				return reconciler.Want{Objects: desired}, nil
			})
			opts.NoAudit = true
			r := g.reconciler(t, opts)
			work := g.plain(nil).ensure(t, "incomplete-"+name)
			request := reconcile.Request{NamespacedName: types.NamespacedName{Name: work.Name}}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			desired = objects(foreign)
			var refused *appliedwork.AdoptionError
			if _, err := r.Reconcile(t.Context(), request); !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if pruned := g.get(older) == nil; pruned != opts.PruneIncomplete {
				t.Errorf("the object of the older version was pruned: %t", pruned)
			}
			desired = objects(configMapOf("incomplete", name+"-newer", "1"))
			if _, err := r.Reconcile(t.Context(), request); err != nil || g.get(older) != nil {
				t.Errorf("the object is not pruned after a complete apply: %v", err)
			}
		})
	}
}

// checkExample runs the example as a user does.
func checkExample(t *testing.T, g *ground) {
	command := exec.CommandContext(t.Context(), "go", "run", "./examples/applied-work", "--kubeconfig", g.Kubeconfig())
	command.Dir = "../.."
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{"applied: 4 created", "applied: 1 configured, 2 unchanged", "pruned:  1 deleted",
		"wait until 3 objects are deleted", "all objects are deleted"} {
		if !strings.Contains(string(out), line) {
			t.Errorf("there is no %q in\n%s", line, out)
		}
	}
}

// withoutInventory is the client of a user who may not read AppliedWorks.
type withoutInventory struct {
	dynamic.Interface
	t *testing.T
}

func (w withoutInventory) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if r.Resource == v1alpha1.GroupVersionResource.Resource {
		w.t.Errorf("the client for objects was asked for %s", r)
	}
	return w.Interface.Resource(r)
}

// checkReconcilerInventory: with Options.Inventory, a reconciler does not request AppliedWorks from
// the other client.
func checkReconcilerInventory(t *testing.T, g *ground) {
	g.create(namespaceOf("reconciler-inventory"))
	a := configMapOf("reconciler-inventory", "a", "1")
	r, err := reconciler.New(reconciler.Options{
		NoAudit: true, Owns: func(w *v1alpha1.AppliedWork) bool { return w.Name == "reconciler-inventory" },
		Options: appliedwork.Options{
			Client: withoutInventory{g.admin, t}, Inventory: g.admin,
			Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config()),
		},
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return reconciler.Want{Objects: objects(a)}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.plain(nil).ensure(t, "reconciler-inventory")
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: "reconciler-inventory"}}
	if _, err := r.Reconcile(t.Context(), request); err != nil || g.get(a) == nil {
		t.Errorf("nothing was applied: %v", err)
	}
}
