// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

const (
	source  = "mwrs-controller"
	cluster = "cluster1"
	agent   = "cluster1-work-agent"
)

var (
	eventTime = time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	wholeTime = metav1.NewTime(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
)

// sameMessage compares as Kubernetes does: nil and empty lists are equal, and times are compared as
// instants.
var sameMessage = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) }),
	cmp.Comparer(func(a, b workv1.Manifest) bool { return string(a.Raw) == string(b.Raw) }),
}

func sourceHeader() codec.Header {
	return codec.Header{ID: "0b1f", Time: eventTime, Source: source, Cluster: cluster}
}

func agentHeader() codec.Header {
	h := sourceHeader()
	h.Agent = agent
	return h
}

func workRef() codec.WorkRef {
	return codec.WorkRef{
		ResourceID: codec.ResourceID(source, cluster, "nginx"), Version: 1783432567890123456,
		UID: "0c1f2a55-6a55-4a1e-9d59-5f0d1c5b2f11", Name: "nginx",
	}
}

// enhancementRef returns the reference of a work from a peer that supports only the attributes of the
// enhancement.
func enhancementRef() codec.WorkRef {
	const id = "748d04ad-887a-44dd-b788-da1373227072"
	return codec.WorkRef{ResourceID: id, Version: 3, Name: id}
}

func manifest(raw string) workv1.Manifest {
	var m workv1.Manifest
	m.Raw = []byte(raw)
	return m
}

// newWork makes a work with a value in each part of its spec.
func newWork() *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	w.Name, w.Namespace = "nginx", cluster
	w.Labels = map[string]string{"app": "web", "tier": "front"}
	w.Annotations = map[string]string{"note": "two\nlines <&> \"quoted\" ü"}
	w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "own", UID: "7"}}
	w.Generation = 3
	w.CreationTimestamp = wholeTime
	w.Spec.Workload.Manifests = []workv1.Manifest{
		manifest(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}`),
		manifest(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b","namespace":"default"}}`),
	}
	ttl := int64(60)
	w.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
			{Resource: "configmaps", Name: "a", Namespace: "default"},
		}},
		TTLSecondsAfterFinished: &ttl,
	}
	w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Name: "a", Namespace: "default"},
		FeedbackRules: []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "k", Path: ".data.k"}}}},
		UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
	}}
	w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "default", Name: "executor"},
	}}
	return w
}

// metadataOnly makes a work without a spec, as a deletion contains it.
func metadataOnly() *workv1.ManifestWork {
	w := newWork()
	w.Spec = workv1.ManifestWorkSpec{}
	return w
}

func newSpec() *codec.Spec {
	return &codec.Spec{Header: sourceHeader(), WorkRef: workRef(), AgentSession: "s-1", StatusSeq: 1783432567890123400,
		Work: newWork()}
}

func newDelete() *codec.Spec {
	m := newSpec()
	t := wholeTime
	m.DeletionTimestamp, m.Work = &t, metadataOnly()
	return m
}

func newStatus() *codec.Status {
	ready := int64(1)
	return &codec.Status{
		Header: agentHeader(), WorkRef: workRef(), SequenceID: 1783432567890123499,
		Status: &workv1.ManifestWorkStatus{
			Conditions: []metav1.Condition{{
				Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete",
				Message: "Apply manifest work complete", LastTransitionTime: wholeTime, ObservedGeneration: 3,
			}},
			ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
				ResourceMeta: workv1.ManifestResourceMeta{Ordinal: 0, Version: "v1", Kind: "ConfigMap", Resource: "configmaps",
					Name: "a", Namespace: "default"},
				StatusFeedbacks: workv1.StatusFeedbackResult{
					Values: []workv1.FeedbackValue{{Name: "ready", Value: workv1.FieldValue{Type: workv1.Integer, Integer: &ready}}},
				},
				Conditions: []metav1.Condition{{
					Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete",
					LastTransitionTime: wholeTime,
				}},
			}}},
		},
	}
}

func newGone() *codec.Status {
	return &codec.Status{Header: agentHeader(), WorkRef: workRef(), Status: &workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{{
			Type: codec.ConditionDeleted, Status: metav1.ConditionTrue, Reason: "ManifestsDeleted",
			LastTransitionTime: wholeTime,
		}},
	}}
}

func newSpecResync() *codec.SpecResync {
	h := agentHeader()
	h.Source, h.ResyncID = "", "r-1"
	return &codec.SpecResync{Header: h, AgentSession: "s-1", Broadcast: true, Entries: []codec.SpecEntry{
		{ResourceID: workRef().ResourceID, Version: 1783432567890123456, UID: workRef().UID, Source: source,
			SequenceID: 1783432567890123499},
		{ResourceID: enhancementRef().ResourceID, Version: 3},
	}}
}

func newDigest() *codec.Digest {
	return &codec.Digest{
		Header:       codec.Header{ID: "d-1", Source: source, Cluster: "cluster1", Agent: "cluster1-work-agent"},
		AgentSession: "0f6c1f26-9d8e-4a08-8d0f-3f0a4a2b7d11", Works: 25_000, Sums: []uint64{0x0123456789abcdef},
	}
}

func newStatusResync() *codec.StatusResync {
	h := sourceHeader()
	h.ResyncID = "r-2"
	return &codec.StatusResync{Header: h, Entries: []codec.StatusEntry{
		{ResourceID: workRef().ResourceID, Hash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
			UID: workRef().UID, StatusSeq: 1783432567890123499},
		{ResourceID: enhancementRef().ResourceID},
	}}
}

func TestStatusGone(t *testing.T) {
	condition := func(kind, status string) *codec.Status {
		return &codec.Status{Status: &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{
			{Type: workv1.WorkApplied, Status: metav1.ConditionTrue}, {Type: kind, Status: metav1.ConditionStatus(status)},
		}}}
	}
	for _, tc := range []struct {
		name, reason string
		status       *codec.Status
		want         bool
	}{
		{"acknowledgement", "says nothing about it", &codec.Status{}, false},
		{"other condition", "not the one", condition("Available", "True"), false},
		{"not deleted", "the condition is there, but not true", condition(codec.ConditionDeleted, "False"), false},
		{"gone", "beside other conditions", condition(codec.ConditionDeleted, "True"), true},
	} {
		if got := tc.status.Gone(); got != tc.want {
			t.Errorf("%s: %s: got %t, want %t", tc.name, tc.reason, got, tc.want)
		}
	}
}
