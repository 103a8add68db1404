// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"fmt"

	"github.com/spokewire/sdk-go/codec"
)

// An event for an agent that is built on the OCM SDK consists of attributes and data. A binary
// transport sends the attributes next to the data.
func ExampleProfile_manifestBundle() {
	spec := exampleSpec()
	spec.ResourceID = codec.ManifestBundle.ResourceID(spec.Source, spec.Cluster, spec.Name)
	spec.Action = codec.ActionCreate
	topic, event, err := codec.ManifestBundle.Encode(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(topic)
	for name, value := range codec.Attributes(event) {
		fmt.Printf("%s=%s\n", name, value)
	}
	fmt.Println(string(event.Data()))
	// Output:
	// sources/mwrs-controller/clusters/cluster1/sourceevents
	// specversion=1.0
	// id=1
	// source=mwrs-controller
	// type=io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request
	// time=2024-05-06T07:08:09Z
	// clustername=cluster1
	// logtracing={}
	// metadata={"name":"nginx","namespace":"cluster1","uid":"d88afb58-b1af-5b27-ac17-b03668488334","resourceVersion":"7","annotations":{"cloudevents.open-cluster-management.io/resourceversion":"7"}}
	// originalsource=
	// resourceid=d88afb58-b1af-5b27-ac17-b03668488334
	// resourceversion=7
	// {"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}]}
}

// The topics use the word "consumers" for clusters, and the replicas of a source share its
// subscriptions.
func ExampleNewManifestBundle() {
	profile, err := codec.NewManifestBundle(codec.ManifestBundleOptions{ClustersLevel: "consumers", SharedGroup: "hub"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, filter := range profile.SourceFilters("mwrs-controller") {
		fmt.Println(filter)
	}
	// Output:
	// $share/hub/sources/mwrs-controller/consumers/+/agentevents
	// $share/hub/consumers/+/agentbroadcast
}
