// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// TestIsResync checks that IsResync distinguishes resync requests from other events by their types,
// in every profile.
func TestIsResync(t *testing.T) {
	ref := codec.WorkRef{ResourceID: "id", Version: 3, Name: "nginx"}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Namespace: cluster}}
	status := func(action codec.Action) codec.Message {
		return &codec.Status{Header: agentHeader(), WorkRef: ref, Action: action, SequenceID: 7, Status: &workv1.ManifestWorkStatus{}}
	}
	spec := func(action codec.Action) codec.Message {
		return &codec.Spec{Header: sourceHeader(), WorkRef: ref, Action: action, Work: work}
	}
	deleted := spec(codec.ActionUpdate).(*codec.Spec)
	deleted.DeletionTimestamp = &metav1.Time{Time: eventTime}
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for name, tt := range map[string]struct {
			message codec.Message
			want    bool
		}{
			"creation":            {spec(codec.ActionCreate), false},
			"update":              {spec(codec.ActionUpdate), false},
			"deletion":            {deleted, false},
			"spec in an answer":   {spec(codec.ActionAnswer), false},
			"status":              {status(codec.ActionUpdate), false},
			"status in an answer": {status(codec.ActionAnswer), false},
			"list of works":       {&codec.SpecResync{Header: agentHeader()}, true},
			"list of hashes":      {&codec.StatusResync{Header: sourceHeader()}, true},
			"broadcast":           {&codec.StatusResync{Header: codec.Header{ID: "0b1f", Time: eventTime, Source: source}, Broadcast: true}, true},
		} {
			_, event, err := profile.Encode(tt.message)
			if err != nil {
				t.Fatalf("%s, %s: %v", profile.Name(), name, err)
			}
			if got := codec.IsResync(event); got != tt.want {
				t.Errorf("%s: IsResync of a %s, type %s: %v", profile.Name(), name, event.Type(), got)
			}
		}
	}
}
