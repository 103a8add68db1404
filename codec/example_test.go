// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// exampleSpec returns the spec event of a work with one ConfigMap.
func exampleSpec() *codec.Spec {
	var manifest workv1.Manifest
	manifest.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`)
	work := &workv1.ManifestWork{}
	work.Spec.Workload.Manifests = []workv1.Manifest{manifest}
	return &codec.Spec{
		Header: codec.Header{
			ID:      "1",
			Time:    time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC),
			Source:  "mwrs-controller",
			Cluster: "cluster1",
		},
		WorkRef: codec.WorkRef{
			ResourceID: codec.ResourceID("mwrs-controller", "cluster1", "nginx"),
			Version:    7,
			Name:       "nginx",
		},
		Work: work,
	}
}

// A source encodes a work and prints the event before it publishes it.
func ExampleProfile_encode() {
	topic, event, err := codec.ManifestWork.Encode(exampleSpec())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(topic)
	for name, value := range codec.Attributes(event) {
		fmt.Printf("%s: %s\n", name, value)
	}
	fmt.Println(string(event.Data()))
	// Output:
	// /sources/mwrs-controller/clusters/cluster1/manifests
	// specversion: 1.0
	// id: 1
	// source: mwrs-controller
	// type: io.open-cluster-management.v1.manifestwork.spec.created
	// time: 2024-05-06T07:08:09Z
	// clustername: cluster1
	// resourceid: c3ef2c5a-c0e4-5832-ad21-a9552589ce8f
	// resourceversion: 7
	// workname: nginx
	// {"metadata":{},"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}]}
}

// An agent decodes a message from a broker.
func ExampleProfile_decode() {
	const topic = "/sources/mwrs-controller/clusters/cluster1/manifests"
	payload := []byte(`{
		"specversion": "1.0", "id": "1", "source": "mwrs-controller",
		"type": "io.open-cluster-management.v1.manifestwork.spec.created",
		"resourceID": "748d04ad-887a-44dd-b788-da1373227072", "resourceVersion": 3,
		"data": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap"}]}
	}`)
	event, err := codec.ParseStructured(payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	message, err := codec.ManifestWork.Decode(topic, event)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch m := message.(type) {
	case *codec.Spec:
		fmt.Println("version", m.Version, "of", m.ResourceID, "from", m.Source)
		fmt.Println(string(m.Work.Spec.Workload.Manifests[0].Raw))
	case *codec.StatusResync:
		fmt.Println(m.Source, "asks for statuses")
	}
	// Output:
	// version 3 of 748d04ad-887a-44dd-b788-da1373227072 from mwrs-controller
	// {"apiVersion": "v1", "kind": "ConfigMap"}
}

// Decode rejects an event that contradicts its topic.
func ExampleError() {
	_, event, err := codec.ManifestWork.Encode(exampleSpec())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = codec.ManifestWork.Decode("/sources/mwrs-controller/clusters/cluster2/manifests", event)
	var refused *codec.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, refused.Field)
	}
	// Output:
	// mismatch clustername
}

func ExampleResourceID() {
	fmt.Println(codec.ResourceID("mwrs-controller", "cluster1", "nginx"))
	// Output:
	// c3ef2c5a-c0e4-5832-ad21-a9552589ce8f
}

func ExampleStatusHash() {
	hash, err := codec.StatusHash(&workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hash)
	// Output:
	// 31a65baa6f7e66377a4493e3eab84624a2e2492a7f9bfa4ab65af95724e1898f
}

func ExampleValidateName() {
	fmt.Println(codec.ValidateName("cluster name", "cluster1"))
	fmt.Println(codec.ValidateName("cluster name", "eu/cluster1"))
	// Output:
	// <nil>
	// cluster name: must not contain '/', which has a meaning in topics
}

// An agent splits a list that is too long for one message.
func ExampleSplitSpecResync() {
	list := &codec.SpecResync{
		Header: codec.Header{ID: "1", Cluster: "cluster1", Agent: "cluster1-work-agent", ResyncID: "r1"},
	}
	for i := range 5000 {
		id := codec.ResourceID("mwrs-controller", "cluster1", fmt.Sprint("work-", i))
		list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: id, Version: 1})
	}
	for _, chunk := range codec.SplitSpecResync(list, codec.ResyncChunkSize) {
		fmt.Println(chunk.ID, chunk.Chunk.Index, "of", chunk.Chunk.Count, "with", len(chunk.Entries))
	}
	// Output:
	// 1-0 0 of 3 with 1718
	// 1-1 1 of 3 with 1718
	// 1-2 2 of 3 with 1564
}

// A source splits its list of status hashes in the same way.
func ExampleSplitStatusResync() {
	list := &codec.StatusResync{Header: codec.Header{ID: "1", Source: "mwrs-controller", ResyncID: "r1"}}
	for i := range 2000 {
		id := codec.ResourceID("mwrs-controller", "cluster1", fmt.Sprint("work-", i))
		list.Entries = append(list.Entries, codec.StatusEntry{ResourceID: id, Hash: strings.Repeat("0", 64)})
	}
	for _, chunk := range codec.SplitStatusResync(list, codec.ResyncChunkSize) {
		fmt.Println(chunk.ID, chunk.Chunk.Index, "of", chunk.Chunk.Count, "with", len(chunk.Entries))
	}
	// Output:
	// 1-0 0 of 3 with 975
	// 1-1 1 of 3 with 975
	// 1-2 2 of 3 with 50
}
