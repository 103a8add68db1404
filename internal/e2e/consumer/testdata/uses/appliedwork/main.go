// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use has a work applied on a cluster that does not answer.
//
// Prints: prune 1, no server: true true
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func main() {
	ctx := context.Background()
	config := &rest.Config{Host: "https://127.0.0.1:1"} // where nobody listens
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: client, Discovery: disco})
	if err != nil {
		log.Fatal(err)
	}
	settings := &unstructured.Unstructured{}
	settings.SetAPIVersion("v1")
	settings.SetKind("ConfigMap")
	settings.SetNamespace("shop")
	settings.SetName("settings")
	work := &v1alpha1.AppliedWork{}
	work.Name, work.UID = appliedwork.NameFor("hub", "cluster1", "shop"), "1"
	_, applyErr := appliedwork.NewApplier(tracker).Apply(ctx, work, []*unstructured.Unstructured{settings},
		appliedwork.ApplyOptions{})
	_, teardownErr := appliedwork.NewCollector(tracker).Teardown(ctx, work, appliedwork.TeardownOptions{})
	old := v1alpha1.AppliedResourceMeta{ResourceIdentifier: v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap",
		Name: "old"}}
	plan := appliedwork.Diff([]v1alpha1.AppliedResourceMeta{old}, nil)
	fmt.Printf("prune %d, no server: %v %v\n", len(plan.Stale), applyErr != nil, teardownErr != nil)
}
