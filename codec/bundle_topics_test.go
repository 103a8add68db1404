// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

// TestManifestBundleFilters checks the filters of source and agent for each option.
func TestManifestBundleFilters(t *testing.T) {
	tests := []struct {
		name, reason  string
		options       codec.ManifestBundleOptions
		source, agent []string
	}{
		{
			"default", "no leading slash", codec.ManifestBundleOptions{},
			[]string{"sources/s1/clusters/+/agentevents", "clusters/+/agentbroadcast"},
			[]string{"sources/+/clusters/c1/sourceevents", "sources/+/sourcebroadcast"},
		},
		{
			"consumers", "older deployments name clusters so", codec.ManifestBundleOptions{ClustersLevel: "consumers"},
			[]string{"sources/s1/consumers/+/agentevents", "consumers/+/agentbroadcast"},
			[]string{"sources/+/consumers/c1/sourceevents", "sources/+/sourcebroadcast"},
		},
		{
			"shared", "replicas get each message once", codec.ManifestBundleOptions{SourcesLevel: "origins", SharedGroup: "hub"},
			[]string{"$share/hub/origins/s1/clusters/+/agentevents", "$share/hub/clusters/+/agentbroadcast"},
			[]string{"$share/hub/origins/+/clusters/c1/sourceevents", "$share/hub/origins/+/sourcebroadcast"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, err := codec.NewManifestBundle(tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.source, p.SourceFilters("s1")); diff != "" {
				t.Errorf("%s: source (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.agent, p.AgentFilters("c1")); diff != "" {
				t.Errorf("%s: agent (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestManifestBundleOptions checks that the error names the option that cannot be one level of a
// topic.
func TestManifestBundleOptions(t *testing.T) {
	for field, o := range map[string]codec.ManifestBundleOptions{
		"SourcesLevel":  {SourcesLevel: "a/b"},
		"ClustersLevel": {ClustersLevel: "+"},
		"SharedGroup":   {SharedGroup: "#"},
	} {
		var e *codec.Error
		if p, err := codec.NewManifestBundle(o); p != nil || !errors.As(err, &e) ||
			e.Field != "ManifestBundleOptions."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestManifestBundleTopics checks that each kind of message is sent to its topic, with the
// configured words, and is decoded from that topic.
func TestManifestBundleTopics(t *testing.T) {
	p, err := codec.NewManifestBundle(codec.ManifestBundleOptions{ClustersLevel: "consumers", SharedGroup: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	const pair = "sources/mwrs-controller/consumers/cluster1/"
	head, agentHead := sourceHeader(), agentHeader()
	toAll, fromAny := head, agentHead
	toAll.Cluster, fromAny.Source = "", ""
	tests := []struct {
		name, topic, eventType string
		message                codec.Message
	}{
		{"spec", pair + "sourceevents", "spec.update_request", bundleSpec()},
		{"answer", pair + "sourceevents", "spec.resync_response", withAction(bundleSpec(), codec.ActionAnswer)},
		{"status", pair + "agentevents", "status.update_request", bundleStatus()},
		{"hashes for one cluster", pair + "sourceevents", "status.resync_request", &codec.StatusResync{Header: head}},
		{"hashes for all", "sources/mwrs-controller/sourcebroadcast", "status.resync_request",
			&codec.StatusResync{Header: toAll, Broadcast: true}},
		{"list for one source", pair + "agentevents", "spec.resync_request",
			&codec.SpecResync{Header: agentHead, TargetSource: source}},
		{"list for all", "consumers/cluster1/agentbroadcast", "spec.resync_request",
			&codec.SpecResync{Header: fromAny, Broadcast: true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			topic, e, err := p.Encode(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			if topic != tc.topic || e.Type() != bundleDataType+"."+tc.eventType {
				t.Errorf("topic %q, type %q", topic, e.Type())
			}
			got, err := p.Decode(topic, e)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.message, got, sameMessage); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := codec.ManifestBundle.Decode(topic, e); strings.Contains(topic, "consumers") && err == nil {
				t.Error("another word on the topic was taken")
			}
		})
	}
}

// bundleSpec returns a message as Decode returns it, with the labels and annotations that agents
// add.
func bundleSpec() *codec.Spec {
	m := newSpec()
	m.WorkRef = bundleRef()
	m.AgentSession, m.StatusSeq, m.Action = "", 7, codec.ActionUpdate
	m.Work.Generation = m.Version
	m.Work.Labels[codec.LabelOriginalSource] = source
	m.Work.Annotations[codec.AnnotationDataType] = bundleDataType
	m.Work.Annotations[codec.AnnotationResourceVersion] = "3"
	m.Work.Annotations[codec.AnnotationSequenceID] = "7"
	m.Work.Annotations["logging.open-cluster-management.io/op-id"] = "42"
	return m
}

func bundleStatus() *codec.Status {
	m := newStatus()
	m.WorkRef, m.Action, m.SequenceID, m.Hash = bundleRef(), codec.ActionUpdate, 9, "00ff"
	meta := bundleSpec().Work.ObjectMeta
	meta.UID = "0dd0"
	m.Metadata = &meta
	m.Metadata.UID = "b9d4f2ae-27b3-5f0e-8f37-0f3c1c1f3f10"
	m.ResourceID = string(m.Metadata.UID)
	return m
}

func bundleRef() codec.WorkRef {
	return codec.WorkRef{ResourceID: codec.ManifestBundle.ResourceID(source, cluster, "nginx"), Version: 3, Name: "nginx"}
}

func withAction(m *codec.Spec, a codec.Action) *codec.Spec {
	m.Action = a
	return m
}
