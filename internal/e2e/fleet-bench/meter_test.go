// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// TestKinds checks that events without a work are neither spec nor status.
func TestKinds(t *testing.T) {
	header := codec.Header{ID: "1", Source: "hub"}
	heartbeat := header
	heartbeat.Cluster, heartbeat.Agent = "cluster1", "agent1"
	for _, test := range []struct {
		profile codec.Profile
		message codec.Message
		want    string
	}{
		{codec.ManifestWork, &codec.Presence{Header: header, Session: "s", Started: time.Now()}, "presence"},
		{codec.ManifestBundle, &codec.Presence{Header: header, Session: "s", Started: time.Now()}, "presence"},
		{codec.ManifestWork, &codec.Digest{Header: heartbeat, AgentSession: "s", Sums: []uint64{1}}, "digest"},
		{codec.ManifestWork, &codec.StatusResync{Header: header, Broadcast: true}, "resync"},
		{codec.ManifestBundle, &codec.StatusResync{Header: header, Broadcast: true}, "resync"},
	} {
		_, event, err := test.profile.Encode(test.message)
		if err != nil {
			t.Fatal(err)
		}
		if got := kindOf(cloudevents.Message{Event: event}); got != test.want {
			t.Errorf("%s: %s, want %s", event.Type(), got, test.want)
		}
	}
}
