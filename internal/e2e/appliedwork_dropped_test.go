// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// checkDroppedContents: an object that must stay keeps its Namespace and its CRD, even after the
// work has dropped it.
func checkDroppedContents(t *testing.T, g *ground) {
	for _, test := range []struct {
		name string
		keep func(d *dropped)
	}{
		{"rule", (*dropped).byRule},
		{"key", (*dropped).byKey},
		{"annotation", (*dropped).byAnnotation},
		{"adopted", (*dropped).byAdoption},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newDropped(t, g.in(t), test.name, test.keep).run(false)
		})
		t.Run(test.name+" teardown", func(t *testing.T) {
			t.Parallel()
			newDropped(t, g.in(t), test.name+"-teardown", test.keep).run(true)
		})
	}
}

// dropped is a work with its own Namespace and CRD. The work drops the ConfigMap in the Namespace
// and the object of the CRD, which must both stay.
type dropped struct {
	t          *testing.T
	g          *ground
	tools      tools
	work       *v1alpha1.AppliedWork
	containers []*unstructured.Unstructured
	contents   []*unstructured.Unstructured
	opts       appliedwork.ApplyOptions
}

func newDropped(t *testing.T, g *ground, name string, keep func(*dropped)) *dropped {
	group := name + ".dropped.example.com"
	d := &dropped{t: t, g: g, tools: g.plain(nil)}
	d.work = d.tools.ensure(t, "dropped-"+name)
	d.containers = objects(namespaceOf("dropped-"+name), customCRD(group, "Box", "v1"))
	d.contents = objects(configMapOf("dropped-"+name, "a", "1"), customOf(group+"/v1", "Box", "default", name))
	keep(d)
	return d
}

func (d *dropped) byRule() {
	d.opts.Policies.Default = appliedwork.PolicySelectivelyOrphan
	for i, resource := range []string{"configmaps", "boxs"} {
		obj := d.contents[i]
		d.opts.Policies.Orphans = append(d.opts.Policies.Orphans, appliedwork.OrphanRule{
			Group: obj.GroupVersionKind().Group, Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		})
	}
}

func (d *dropped) byKey() {
	d.opts.Policies.ByKey = map[appliedwork.Key]appliedwork.Policy{}
	for _, obj := range d.contents {
		key, err := appliedwork.Identify(obj)
		if err != nil {
			d.t.Fatal(err)
		}
		d.opts.Policies.ByKey[key] = appliedwork.PolicyOrphan
	}
}

func (d *dropped) byAnnotation() {
	for _, obj := range d.contents {
		obj.SetAnnotations(map[string]string{v1alpha1.AnnotationPrune: "disabled"})
	}
}

// byAdoption creates the objects before the work has them.
func (d *dropped) byAdoption() {
	d.reconcile(d.containers)
	for _, obj := range d.contents {
		d.g.create(obj)
	}
	d.opts.Adoption = appliedwork.AdoptionIfUnowned
	d.opts.Force = true
}

// reconcile applies and prunes twice, as an agent does with each resync.
func (d *dropped) reconcile(objects []*unstructured.Unstructured) {
	d.t.Helper()
	for range 2 {
		if changes, err := d.tools.applier.Apply(d.t.Context(), d.work, objects, d.opts); err != nil {
			d.t.Fatalf("%v, %v", changes.Entries, err)
		}
		changes, err := d.tools.pruner.Prune(d.t.Context(), d.work, objects,
			appliedwork.PruneOptions{Policies: d.opts.Policies})
		if err != nil {
			d.t.Fatalf("%v, %v", changes.Entries, err)
		}
	}
}

// run ends the work by a teardown, or by deleting its AppliedWork.
func (d *dropped) run(teardown bool) {
	goes := clusterRoleOf(d.work.Name)
	all := append(objects(goes), d.containers...)
	d.reconcile(append(all, d.contents...))
	d.reconcile(all)
	if teardown {
		changes, err := d.tools.collector.Teardown(d.t.Context(), d.work,
			appliedwork.TeardownOptions{Policies: d.opts.Policies})
		if err != nil || !changes.Done() {
			d.t.Errorf("%v, %v", changes.Entries, err)
		}
	} else if err := d.g.admin.Resource(v1alpha1.GroupVersionResource).Delete(d.t.Context(), d.work.Name,
		metav1.DeleteOptions{}); err != nil {
		d.t.Fatal(err)
	}
	d.g.eventuallyGone(d.t, goes)
	d.stay()
}

// stay checks that no object that must stay was deleted.
func (d *dropped) stay() {
	d.t.Helper()
	time.Sleep(2 * time.Second) // the garbage collector has processed them by then
	for _, obj := range append(objects(d.containers...), d.contents...) {
		if live := d.g.get(obj); live == nil || live.GetDeletionTimestamp() != nil {
			d.t.Errorf("%s %s was deleted", obj.GetKind(), obj.GetName())
		}
	}
}
