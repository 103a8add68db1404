// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// counting counts the requests of a client.
type counting struct {
	dynamic.Interface
	mu    sync.Mutex
	asked map[string]int
}

func (c *counting) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[r.Resource]++
	return c.Interface.Resource(r)
}

// TestInventoryHasItsOwnClient checks that inventories have a separate client. An
// AppliedWork among the objects is treated like any other object.
func TestInventoryHasItsOwnClient(t *testing.T) {
	api := newFakeAPI()
	objects, inventories := &counting{Interface: api.client(), asked: map[string]int{}},
		&counting{Interface: api.client(), asked: map[string]int{}}
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Client, o.Inventory = objects, inventories })
	applier, pruner := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker)
	desired := []*unstructured.Unstructured{manifest("a", "1"), manifest("b", "1")}
	if _, err := applier.Apply(t.Context(), work, desired, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if changes, err := pruner.Prune(t.Context(), work, desired[:1], appliedwork.PruneOptions{}); err != nil ||
		len(changes.Entries) != 1 {
		t.Fatalf("%+v, %v", changes, err)
	}
	if n := objects.asked["appliedworks"]; n > 0 || objects.asked["configmaps"] == 0 {
		t.Errorf("who applies objects was asked %v", objects.asked)
	}
	if len(inventories.asked) != 1 || inventories.asked["appliedworks"] == 0 {
		t.Errorf("who keeps inventories was asked %v", inventories.asked)
	}
	other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"workName": "x"}}}
	other.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	other.SetName("other")
	if _, err := applier.Apply(t.Context(), work, []*unstructured.Unstructured{other},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if objects.asked["appliedworks"] == 0 {
		t.Error("an object was applied by who keeps inventories")
	}
	if _, err := appliedwork.NewCollector(tracker).Teardown(t.Context(), work, appliedwork.TeardownOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidOptionsAreRefused checks that invalid options are refused with the reason.
func TestInvalidOptionsAreRefused(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	options := func(change func(*appliedwork.Options)) error {
		o := appliedwork.Options{Client: api.client(), Discovery: api}
		change(&o)
		_, err := appliedwork.NewTracker(o)
		return err
	}
	apply := func(o appliedwork.ApplyOptions) error {
		_, err := appliedwork.NewApplier(tracker).Apply(neverEnds, work, nil, o)
		return err
	}
	prune := func(o appliedwork.PruneOptions) error {
		_, err := appliedwork.NewPruner(tracker).Prune(neverEnds, work, nil, o)
		return err
	}
	for name, err := range map[string]error{
		"Client":        options(func(o *appliedwork.Options) { o.Client = nil }),
		"Discovery":     options(func(o *appliedwork.Options) { o.Discovery = nil }),
		"MaxShardBytes": options(func(o *appliedwork.Options) { o.MaxShardBytes = 1 }),
		"MaxShards":     options(func(o *appliedwork.Options) { o.MaxShards = -1 }),
		"UnservedGrace": options(func(o *appliedwork.Options) { o.UnservedGrace = -1 }),
		"Adoption":      apply(appliedwork.ApplyOptions{Adoption: "Sometimes"}),
		"Concurrency":   apply(appliedwork.ApplyOptions{Concurrency: 1000}),
		"FieldManager":  apply(appliedwork.ApplyOptions{FieldManager: strings.Repeat("x", 91)}),
		"Propagation":   prune(appliedwork.PruneOptions{Propagation: "Sideways"}),
		"Default":       prune(appliedwork.PruneOptions{Policies: appliedwork.Policies{Default: "Maybe"}}),
		"Orphans": prune(
			appliedwork.PruneOptions{Policies: appliedwork.Policies{Orphans: []appliedwork.OrphanRule{{}}}}),
		"ByKey": prune(
			appliedwork.PruneOptions{Policies: appliedwork.Policies{ByKey: map[appliedwork.Key]appliedwork.Policy{{}: "x"}}}),
	} {
		if !errors.Is(err, appliedwork.ErrInvalidInput) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
