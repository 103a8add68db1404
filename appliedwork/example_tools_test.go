// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// newShop returns an in-memory cluster with a Tracker and an AppliedWork. The examples of this file
// start with it.
func newShop() (*fakeAPI, *appliedwork.Tracker, *v1alpha1.AppliedWork) {
	api := newFakeAPI()
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: api.client(), Discovery: api})
	if err != nil {
		panic(err)
	}
	work, err := tracker.Ensure(context.Background(), appliedwork.NameFor("hub1", "cluster1", "shop"),
		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
	if err != nil {
		panic(err)
	}
	return api, tracker, work
}

// Each work of each hub has an AppliedWork with its own name.
func ExampleNewTracker() {
	api := newFakeAPI() // stands for a cluster: a dynamic client and a discovery client
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: api.client(), Discovery: api})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	spec := v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"}
	first, err := tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"), spec)
	fmt.Println(first.Spec.WorkName, err)
	again, err := tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"), spec)
	fmt.Println(again.UID == first.UID, err)
	_, err = tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"),
		v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster2", WorkName: "shop"})
	fmt.Println(errors.Is(err, appliedwork.ErrNameCollision))
	// Output:
	// shop <nil>
	// true <nil>
	// true
}

// An agent that makes its own requests records an object before and after the request. After a
// crash it reads the inventory.
func ExampleTracker_RecordIntent() {
	ctx := context.Background()
	_, tracker, work := newShop()
	id := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop",
		Name: "settings"}
	show := func(err error) {
		entries, _ := tracker.Entries(ctx, work)
		for _, e := range entries {
			fmt.Printf("%s UID %q %v\n", appliedwork.KeyOf(e.ResourceIdentifier), e.UID, err)
		}
	}
	show(tracker.RecordIntent(ctx, work, id))
	show(tracker.RecordApplied(ctx, work, v1alpha1.AppliedResourceMeta{ResourceIdentifier: id, UID: "6a4f2a0e"}))
	owners, err := tracker.Owners(ctx, appliedwork.KeyOf(id))
	fmt.Println(owners[0].Name, owners[0].Applied, err)
	// Output:
	// ConfigMap shop/settings UID "" <nil>
	// ConfigMap shop/settings UID "6a4f2a0e" <nil>
	// shop-2gklc7gm2ct2sjtv9u63rsjrmnbk9sd7 true <nil>
}

// An existing object is adopted only if ApplyOptions.Adoption allows it.
func ExampleNewApplier() {
	ctx := context.Background()
	api, tracker, work := newShop()
	if _, err := api.client().Resource(configMaps).Namespace("shop").Create(ctx, manifest("settings", "0"),
		metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	applier := appliedwork.NewApplier(tracker)
	objects := []*unstructured.Unstructured{manifest("settings", "1"), manifest("prices", "1")}
	changes, err := applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{})
	var adoption *appliedwork.AdoptionError
	fmt.Println(changes, errors.As(err, &adoption), adoption.Key)
	changes, err = applier.Apply(ctx, work, objects, appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned})
	fmt.Println(changes, err)
	// Output:
	// 1 created, 1 failed true ConfigMap shop/settings
	// 1 unchanged, 1 adopted <nil>
}

// Plan returns what Prune would do. An empty list of desired objects is an error, because it is
// usually a mistake.
func ExampleNewPruner() {
	ctx := context.Background()
	_, tracker, work := newShop()
	objects := []*unstructured.Unstructured{manifest("settings", "1"), manifest("prices", "1")}
	if _, err := appliedwork.NewApplier(tracker).Apply(ctx, work, objects, appliedwork.ApplyOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	pruner := appliedwork.NewPruner(tracker)
	plan, err := pruner.Plan(ctx, work, objects[:1], appliedwork.PruneOptions{})
	fmt.Println("plan: ", plan, plan.Entries[0].Key, err)
	pruned, err := pruner.Prune(ctx, work, objects[:1], appliedwork.PruneOptions{})
	fmt.Println("prune:", pruned, err)
	_, err = pruner.Prune(ctx, work, nil, appliedwork.PruneOptions{})
	fmt.Println("empty:", errors.Is(err, appliedwork.ErrEmptyDesired))
	// Output:
	// plan:  1 deleted ConfigMap shop/prices <nil>
	// prune: 1 deleted <nil>
	// empty: true
}

// A work ends in one of two ways: its objects are deleted, or they are released and stay.
func ExampleNewCollector() {
	ctx := context.Background()
	api, tracker, work := newShop()
	policies := appliedwork.Policies{Adopted: appliedwork.PolicyDelete} // by default, adopted objects stay
	apply := func() {
		opts := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned, Policies: policies}
		objects := []*unstructured.Unstructured{manifest("settings", "1")}
		if _, err := appliedwork.NewApplier(tracker).Apply(ctx, work, objects, opts); err != nil {
			fmt.Println(err)
		}
	}
	left := func() int {
		list, err := api.client().Resource(configMaps).Namespace("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			fmt.Println(err)
		}
		return len(list.Items)
	}
	collector := appliedwork.NewCollector(tracker)

	apply()
	changes, err := collector.Release(ctx, work, appliedwork.ReleaseOptions{})
	fmt.Println("release: ", changes, err, left(), "left")

	work, err = tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"), work.Spec) // the work exists again
	if err != nil {
		fmt.Println(err)
		return
	}
	apply()
	changes, err = collector.Teardown(ctx, work, appliedwork.TeardownOptions{Policies: policies})
	fmt.Println("teardown:", changes, err, left(), "left")
	fmt.Println("wait:    ", collector.WaitGone(ctx, work))
	// Output:
	// release:  1 released <nil> 1 left
	// teardown: 1 deleted <nil> 0 left
	// wait:     <nil>
}

// A work that does not belong on this cluster any more is deleted after a grace period, unless the
// eviction is canceled.
func ExampleCollector_Evict() {
	ctx := context.Background()
	_, tracker, work := newShop()
	collector := appliedwork.NewCollector(tracker)
	eviction, err := collector.Evict(ctx, work, appliedwork.EvictOptions{})
	fmt.Println("within", eviction.Remaining.Round(time.Minute), eviction.Changes == nil, err)
	fmt.Println("cancel", collector.CancelEviction(ctx, work))
	// Output:
	// within 1h0m0s true <nil>
	// cancel <nil>
}

// After a crash, a late request has created an object that the inventory does not have.
func ExampleCollector_Audit() {
	ctx := context.Background()
	api, tracker, work := newShop()
	late := manifest("settings", "1")
	appliedwork.SetOwnerReference(late, work)
	if _, err := api.client().Resource(configMaps).Namespace("shop").Create(ctx, late,
		metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	collector := appliedwork.NewCollector(tracker)
	for range 2 {
		report, err := collector.Audit(ctx, work, appliedwork.AuditOptions{Record: true})
		fmt.Println(len(report.Untracked), "untracked,", len(report.Missing), "missing,", len(report.Foreign), "foreign", err)
	}
	// Output:
	// 1 untracked, 0 missing, 0 foreign <nil>
	// 0 untracked, 0 missing, 0 foreign <nil>
}

// Plan returns what Apply would do, with the fields that would change.
func ExampleApplier_Plan() {
	ctx := context.Background()
	_, tracker, work := newShop()
	applier := appliedwork.NewApplier(tracker)
	if _, err := applier.Apply(ctx, work, []*unstructured.Unstructured{manifest("settings", "1")},
		appliedwork.ApplyOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	plan, err := applier.Plan(ctx, work, []*unstructured.Unstructured{manifest("settings", "2")},
		appliedwork.ApplyOptions{})
	fmt.Println(plan, err)
	for _, field := range plan.Entries[0].Fields {
		fmt.Println(field)
	}
	// Output:
	// 1 configured <nil>
	// .data.value: 1 -> 2
}

// Two Trackers share an Index: one for the agent, and one with a client that impersonates a user.
func ExampleNewIndex() {
	ctx := context.Background()
	api := newFakeAPI()
	agent := appliedwork.Options{Client: api.client(), Metadata: api.metadata(), Discovery: api,
		Index: appliedwork.NewIndex()}
	user := agent
	user.Client = api.client() // with rest.Config.Impersonate
	user.Inventory, user.InventoryMetadata = agent.Client, agent.Metadata
	for _, opts := range []appliedwork.Options{agent, user} {
		tracker, err := appliedwork.NewTracker(opts)
		if err != nil {
			fmt.Println(err)
			return
		}
		work, err := tracker.Ensure(ctx, appliedwork.NameFor("hub1", "cluster1", "shop"),
			v1alpha1.AppliedWorkSpec{WorkNamespace: "cluster1", WorkName: "shop"})
		if err == nil {
			_, err = appliedwork.NewApplier(tracker).Apply(ctx, work, []*unstructured.Unstructured{manifest("settings", "1")},
				appliedwork.ApplyOptions{})
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		owners, err := tracker.Owners(ctx, appliedwork.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"})
		for _, owner := range owners {
			fmt.Println(owner.Name, owner.Applied, err)
		}
	}

	// Output:
	// shop-2gklc7gm2ct2sjtv9u63rsjrmnbk9sd7 true <nil>
	// shop-2gklc7gm2ct2sjtv9u63rsjrmnbk9sd7 true <nil>
}
