// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

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
		want    Kind
	}{
		{codec.ManifestWork, &codec.Presence{Header: header, Session: "s", Started: time.Now()}, Presence},
		{codec.ManifestBundle, &codec.Presence{Header: header, Session: "s", Started: time.Now()}, Presence},
		{codec.ManifestWork, &codec.Digest{Header: heartbeat, AgentSession: "s", Sums: []uint64{1}}, Resync},
		{codec.ManifestWork, &codec.StatusResync{Header: header, Broadcast: true}, Resync},
		{codec.ManifestBundle, &codec.StatusResync{Header: header, Broadcast: true}, Resync},
	} {
		_, event, err := test.profile.Encode(test.message)
		if err != nil {
			t.Fatal(err)
		}
		if got := kindOf(event); got != test.want {
			t.Errorf("%s: %s, want %s", event.Type(), Kinds[got], Kinds[test.want])
		}
	}
}
