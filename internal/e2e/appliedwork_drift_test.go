// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/dynamicwatcher"
	watchersource "github.com/spokewire/sdk-go/dynamicwatcher/source"
)

// watches watches the applied objects with dynamicwatcher.
type watches struct{ *watchersource.Source }

func (w watches) Watch(work *v1alpha1.AppliedWork, objects []v1alpha1.AppliedResourceMeta) error {
	watcher := dynamicwatcher.ObjectIdentifier{
		Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion.Version, Kind: v1alpha1.Kind, Name: work.Name,
	}
	var watched []dynamicwatcher.ObjectIdentifier
	for _, o := range objects {
		watched = append(watched, dynamicwatcher.ObjectIdentifier{
			Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
		})
	}
	if len(watched) == 0 {
		return w.Watcher().RemoveWatcher(watcher)
	}
	return w.Watcher().AddOrUpdateWatcher(watcher, watched...)
}

// runReconciler runs a reconciler of a hub in a manager.
func (g *ground) runReconciler(
	t *testing.T, hub string, opts reconciler.Options, names ...string,
) *reconciler.Reconciler {
	t.Helper()
	opts.Options = appliedwork.Options{
		Client: g.admin, Metadata: metadata.NewForConfigOrDie(g.Config()),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(g.Config()),
	}
	opts.Hub = hub
	opts.ControllerName = fmt.Sprint("drift_", runs.Add(1))
	r, err := reconciler.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	options := ctrl.Options{Metrics: server.Options{BindAddress: "0"}}
	for _, name := range names {
		options.Cache = cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", name)}
	}
	manager, err := ctrl.NewManager(g.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	background(t, manager.Start)
	return r
}

var runs atomic.Int32

// checkDrift: a resync or a watch repairs objects that others change or delete.
func checkDrift(t *testing.T, g *ground) {
	g.create(namespaceOf("drift"))
	watcher := func() reconciler.Watcher {
		s, err := watchersource.New(&dynamicwatcher.Options{Config: g.Config()})
		if err != nil {
			t.Fatal(err)
		}
		return watches{s}
	}
	for name, opts := range map[string]reconciler.Options{
		"resync": {Resync: time.Second},
		"watch":  {Resync: -1, Watcher: watcher()},
	} {
		t.Run(name, func(t *testing.T) {
			a := configMapOf("drift", name, "1")
			opts.Apply.Force = true
			opts.Desired = reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
				return reconciler.Want{Objects: objects(a.DeepCopy())}, nil
			})
			work := appliedwork.NameFor(name, "cluster1", "drift")
			r := g.runReconciler(t, name, opts, work)
			if _, err := r.Tracker().Ensure(t.Context(), work,
				v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "drift"}); err != nil {
				t.Fatal(err)
			}
			value := func() string {
				live, err := g.at(a).Get(context.Background(), name, metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				value, _, _ := unstructured.NestedString(live.Object, "data", "value")
				return value
			}
			repaired := func(what string) {
				t.Helper()
				eventually(t, what, func() error {
					if v := value(); v != "1" {
						return fmt.Errorf("value %s", v)
					}
					return nil
				})
			}
			repaired("it is applied")
			patch := []byte(`{"data":{"value":"changed"}}`)
			if _, err := g.at(a).Patch(t.Context(), name, "application/merge-patch+json", patch,
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			repaired("a change is repaired")
			if err := g.at(a).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			repaired("a deletion is repaired")
		})
	}
}

// checkNewcomer runs the program of the package doc next to another agent with unknown works.
func checkNewcomer(t *testing.T, g *ground) {
	x := g.plain(nil)
	work := x.ensure(t, appliedwork.NameFor("theirs", "cluster1", "shop"))
	theirs := []*unstructured.Unstructured{namespaceOf("newcomer"), configMapOf("newcomer", "a", "1"),
		clusterRoleOf("newcomer")}
	want(t, x.apply(t, work, theirs...), "3 created")
	before := map[string]string{}
	version := func(obj *unstructured.Unstructured) string { return g.get(obj).GetResourceVersion() }
	record := parsed(`{"kind":"AppliedWork","metadata":{"name":%q}}`, work.Name)
	for _, obj := range append(theirs, record) {
		before[obj.GetKind()] = version(obj)
	}
	asked := make(chan string, 1000)
	r := g.runReconciler(t, "newcomer", reconciler.Options{
		Resync: time.Second,
		Desired: reconciler.DesiredFunc(func(_ context.Context, work *v1alpha1.AppliedWork) (reconciler.Want, error) {
			asked <- work.Name
			return reconciler.Want{Removed: work.Spec.WorkName != "mine",
				Objects: objects(configMapOf("newcomer", "mine", "1"))}, nil
		}),
	})
	mine := appliedwork.NameFor("newcomer", "cluster1", "mine")
	if _, err := r.Tracker().Ensure(t.Context(), mine,
		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "mine"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(newcomerTime())
	for done := false; !done; {
		select {
		case name := <-asked:
			if name != mine {
				t.Fatalf("it was asked about %s", name)
			}
		case <-deadline:
			done = true
		}
	}
	for _, obj := range append(theirs, record) {
		if live := g.get(obj); live == nil || live.GetResourceVersion() != before[obj.GetKind()] {
			t.Errorf("%s of the other agent was touched: %v", obj.GetKind(), live)
		}
	}
}

// newcomerTime is one minute, or 10 seconds in short mode.
func newcomerTime() time.Duration {
	if testing.Short() {
		return 10 * time.Second
	}
	return time.Minute
}
