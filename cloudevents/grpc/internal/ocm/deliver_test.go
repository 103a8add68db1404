// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"strings"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestEventMatchesItsTopic checks on which topics an event may be published.
func TestEventMatchesItsTopic(t *testing.T) {
	status, spec := event("status.update_request", "a", "c", "s"), event("spec.create_request", "s", "c", "")
	list, hashes := event("spec.resync_request", "a", "c", ""), event("status.resync_request", "s", "", "")
	own := event("", "a", "c", "s")
	own.SetType("other")
	for _, c := range []struct {
		topic   string
		event   *ce.Event
		allowed bool
	}{
		{"sources/s/clusters/c/agentevents", status, true},
		{"sources/s/clusters/c2/agentevents", status, false},
		{"sources/s2/clusters/c/agentevents", status, false},
		{"sources/s/clusters/c/sourceevents", status, false},
		{"clusters/c/agentbroadcast", status, false},
		{"sources/s/sourcebroadcast", status, false},
		{"sources/s/clusters/c/sourceevents", spec, true},
		{"sources/s/clusters/c/agentevents", spec, false},
		{"sources/a/sourcebroadcast", spec, false},
		{"clusters/c/agentbroadcast", list, true},
		{"clusters/c2/agentbroadcast", list, false},
		{"sources/any/clusters/c/agentevents", list, true},
		{"sources/any/clusters/c2/agentevents", list, false},
		{"sources/any/clusters/c/sourceevents", list, false},
		{"sources/s/sourcebroadcast", hashes, true},
		{"sources/s2/sourcebroadcast", hashes, false},
		{"sources/s/clusters/any/sourceevents", hashes, true},
		{"sources/s2/clusters/any/sourceevents", hashes, false},
		{"sources/s/clusters/any/agentevents", hashes, false},
		{"sources/s/clusters/c/agentevents", own, false},

		{"/sources/s/clusters/c/manifests", status, true},
		{"sources/s/consumers/c2/agentevents", status, true},
		{"sources/s/clusters/c2/agentevents/more", status, true},
		{"other", own, true},
	} {
		b, err := grpcwire.AppendEvent(nil, c.event)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ocm.Deliverable(grpcwire.Message{Topic: c.topic, Event: b})
		if (err == nil) != c.allowed {
			t.Errorf("%s on topic %s: %v, want allowed %v", c.event.Type(), c.topic, err, c.allowed)
		}
	}
}

// TestErrorsAreShort checks that a long name is not repeated.
func TestErrorsAreShort(t *testing.T) {
	e := event("spec."+strings.Repeat("x", 1<<20), "a", "c", "s")
	if _, err := ocm.Topic(e); err == nil || len(err.Error()) > 1024 {
		t.Errorf("a long type: %.2000v", err)
	}
	b, err := grpcwire.AppendEvent(nil, event("status.update_request", "a", strings.Repeat("c", 1<<20), "s"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ocm.Deliverable(grpcwire.Message{Topic: "sources/s/clusters/c/agentevents", Event: b})
	if err == nil || len(err.Error()) > 1024 {
		t.Errorf("a long name: %.2000v", err)
	}
}
