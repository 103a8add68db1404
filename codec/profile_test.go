// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
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
		return &codec.Status{Header: agentHeader(), WorkRef: ref, Action: action, SequenceID: 7,
			Status: &workv1.ManifestWorkStatus{}}
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
			"broadcast": {&codec.StatusResync{Header: codec.Header{ID: "0b1f", Time: eventTime, Source: source},
				Broadcast: true}, true},
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

func TestProfileName(t *testing.T) {
	if got := codec.ManifestWork.Name(); got != "ManifestWork" {
		t.Errorf("got %q", got)
	}
}

// TestNilMessages checks that nil arguments return an error or an empty result, and do not panic.
func TestNilMessages(t *testing.T) {
	if codec.IsResync(nil) {
		t.Error("no event is a resync")
	}
	var refused *codec.Error
	if e, err := codec.FromAttributes(nil, "", nil); !errors.As(err, &refused) || refused.Code != codec.CodeAttribute {
		t.Errorf("no attributes make the event %v: %v", e, err)
	}
	if got := codec.SplitSpecResync(nil, 0); len(got) != 1 || got[0] != nil {
		t.Errorf("no request for specs is divided into %v", got)
	}
	if got := codec.SplitStatusResync(nil, 0); len(got) != 1 || got[0] != nil {
		t.Errorf("no request for statuses is divided into %v", got)
	}
	if (*codec.Status)(nil).Gone() {
		t.Error("no status says that its work is gone")
	}
}
