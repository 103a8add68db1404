// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func manifest(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": name},
		"data": map[string]any{"value": value},
	}}
}

// Example applies, changes, prunes and tears down a work.
func Example() {
	ctx := context.Background()
	api := newFakeAPI() // stands for a cluster: a dynamic client and a discovery client
	api.kinds["apiextensions.k8s.io/v1"] = &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}}}
	api.establish = true
	client := api.client()
	if err := v1alpha1.EnsureCRD(ctx, client.Resource(v1alpha1.CRDResource)); err != nil {
		fmt.Println(err)
		return
	}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	applier, pruner, collector := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker),
		appliedwork.NewCollector(tracker)

	name := appliedwork.NameFor("hub1", "cluster1", "shop")
	work, err := tracker.Ensure(ctx, name, v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	objects := []*unstructured.Unstructured{manifest("settings", "1"), manifest("prices", "1")}
	changes, err := applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{})
	fmt.Println("first: ", changes, err)
	changes, err = applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{})
	fmt.Println("again: ", changes, err)

	objects = []*unstructured.Unstructured{manifest("settings", "2")}
	changes, err = applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{})
	fmt.Println("change:", changes, err)
	changes, err = pruner.Prune(ctx, work, objects, appliedwork.PruneOptions{})
	fmt.Println("prune: ", changes, err)
	changes, err = collector.Teardown(ctx, work, appliedwork.TeardownOptions{})
	fmt.Println("end:   ", changes, err)
	// Output:
	// first:  2 created <nil>
	// again:  2 unchanged <nil>
	// change: 1 configured <nil>
	// prune:  1 deleted <nil>
	// end:    1 deleted <nil>
}

// The functions that make decisions need no cluster.
func ExampleDiff() {
	id := func(version, name string) v1alpha1.ResourceIdentifier {
		return v1alpha1.ResourceIdentifier{Group: "apps", Version: version, Kind: "Deployment", Resource: "deployments",
			Namespace: "shop", Name: name}
	}
	recorded := []v1alpha1.AppliedResourceMeta{{ResourceIdentifier: id("v1beta1", "web"), UID: "1"},
		{ResourceIdentifier: id("v1", "old"), UID: "2"}}
	plan := appliedwork.Diff(recorded, []v1alpha1.ResourceIdentifier{id("v1", "web"), id("v1", "new")})
	fmt.Println("keep ", plan.Keep[0].Name, plan.Keep[0].Version, plan.Keep[0].UID)
	fmt.Println("add  ", plan.Add[0].Name)
	fmt.Println("stale", plan.Stale[0].Name)
	// Output:
	// keep  web v1 1
	// add   new
	// stale old
}

func ExampleDecideDeletion() {
	obj := manifest("settings", "1")
	obj.SetUID("1")
	entry := v1alpha1.AppliedResourceMeta{UID: "1"}
	work := &v1alpha1.AppliedWork{}
	work.Name, work.UID = "work-01", "w"

	fmt.Println("without our reference:", appliedwork.DecideDeletion(obj, entry, appliedwork.Owners{Self: work.UID},
		appliedwork.PolicyDelete))
	appliedwork.SetOwnerReference(obj, work)
	fmt.Println("with it:              ", appliedwork.DecideDeletion(obj, entry, appliedwork.Owners{Self: work.UID},
		appliedwork.PolicyDelete))
	fmt.Println("another AppliedWork:  ", appliedwork.DecideDeletion(obj, entry,
		appliedwork.Owners{Self: work.UID, Listed: []appliedwork.Owner{{UID: "x"}}}, appliedwork.PolicyDelete))
	// Output:
	// without our reference: Release
	// with it:               Delete
	// another AppliedWork:   Release
}

func ExampleNameFor() {
	fmt.Println(appliedwork.NameFor("hub1", "cluster1", "work-01"))
	// Output: work-01-59o93p45uurpepdmecf5g4dq4uegth48
}
