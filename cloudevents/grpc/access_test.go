// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/codec"
)

func TestAuthorizeNames(t *testing.T) {
	authorizer := grpc.AuthorizeNames("hub", "hub2")
	const read, write = false, true
	for _, row := range []struct {
		user, topic string
		write       bool
		allowed     bool
		reason      string
	}{
		{"c1", "/sources/+/clusters/c1/manifests", read, true, "its works"},
		{"c1", "/sources/hub/clusters/c1/manifests", read, true, "its works of one source"},
		{"c1", "/sources/hub/clusters/c2/manifests", read, false, "works of another cluster"},
		{"c1", "/sources/hub/clusters/+/manifests", read, false, "works of all clusters"},
		{"c1", "/sources/#", read, false, "everything of sources"},
		{"c1", "#", read, false, "everything"},
		{"c1", "/sources/+/clusters/c1/+", read, false, "a wildcard for the kind of topic"},
		{"c1", "/sources/hub/clusters/c1/manifests", write, false, "works are written by sources"},
		{"c1", "/sources/hub/clusters/c1/statusresync", write, false, "requests are written by sources"},
		{"c1", "/sources/hub/clusters/c1/manifestsstatus", write, true, "its statuses"},
		{"c1", "/sources/hub/clusters/c1/manifestsstatus", read, false, "statuses are read by sources"},
		{"c1", "/sources/hub/clusters/c2/manifestsstatus", write, false, "statuses of another cluster"},
		{"c1", "/sources/hub/clusters//manifestsstatus", write, false, "statuses of an empty name"},
		{"c1", "/sources/resync/c1/manifests", write, true, "its lists for all sources"},
		{"c1", "/sources/resync/c2/manifests", write, false, "lists of another cluster"},
		{"c1", "/sources/+/resync/clusters/manifestsstatus", read, true, "requests to all clusters"},
		{"c1", "/sources/hub/resync/clusters/manifestsstatus", write, false, "requests are written by sources"},
		{"c1", "/clusters/c1/presence", read, true, "its presence"},
		{"c1", "/clusters/c1/presence", write, true, "its presence"},
		{"c1", "/clusters/c2/presence", write, false, "presence of another cluster"},
		{"c1", "/sources/c1/presence", write, false, "presence of a source with its name"},
		{"c1", "other", write, false, "a topic of another program"},
		{"", "/sources/+/clusters/+/manifests", read, false, "no name"},
		{"", "/sources/+/resync/clusters/manifestsstatus", read, false, "no name"},
		{"system:open-cluster-management:c1:agent1", "/sources/+/clusters/c1/manifests", read, true, "OCM's name"},
		{"system:open-cluster-management:c1:agent1", "/sources/+/clusters/agent1/manifests", read, false, "the agent's name"},
		{"system:open-cluster-management:c1", "/sources/+/clusters/c1/manifests", read, false, "no agent"},
		{"system:open-cluster-management:c1:a", "sources/+/clusters/c1/sourceevents", read, true, "ManifestBundle"},
		{"c1", "sources/hub/clusters/c1/agentevents", write, true, "ManifestBundle"},
		{"c1", "sources/hub/consumers/c1/agentevents", write, true, "Maestro"},
		{"c1", "sources/hub/clusters/c2/agentevents", write, false, "ManifestBundle of another cluster"},
		{"c1", "clusters/c1/agentbroadcast", write, true, "ManifestBundle"},
		{"c1", "sources/+/sourcebroadcast", read, true, "ManifestBundle"},
		{"hub", "/sources/hub/clusters/c1/manifests", write, true, "a source"},
		{"hub", "/sources/hub2/clusters/c1/manifests", write, false, "another source"},
		{"hub", "/sources/hub/clusters/+/manifestsstatus", read, true, "statuses of all clusters"},
		{"hub", "/sources/+/clusters/+/manifestsstatus", read, false, "statuses for all sources"},
		{"hub", "/sources/resync/+/manifests", read, true, "lists for all sources"},
		{"hub", "/sources/hub/resync/clusters/manifestsstatus", write, true, "its requests"},
		{"hub", "/sources/hub/presence", write, true, "its presence"},
		{"hub", "/sources/+/presence", read, false, "presence of all sources"},
		{"hub", "/sources/+/clusters/hub/manifests", read, false, "a source is not an agent"},
		{"c1", "/sources/c1/clusters/c1/manifests", write, false, "an agent is not a source"},
	} {
		a := grpc.Describe(row.topic, row.write)
		a.Identity.User = row.user
		err := authorizer.Authorize(t.Context(), a)
		if allowed := err == nil; allowed != row.allowed {
			t.Errorf("user %q, topic %q, write %v (%s): allowed %v, want %v", row.user, row.topic, row.write,
				row.reason, allowed, row.allowed)
		}
	}
}

// TestProfilesAreAllowed checks that all filters of the profiles are described.
func TestProfilesAreAllowed(t *testing.T) {
	authorizer := grpc.AuthorizeNames("hub")
	for name, profile := range map[string]codec.Profile{"ManifestWork": codec.ManifestWork,
		"ManifestBundle": codec.ManifestBundle} {
		for user, filters := range map[string][]string{
			"hub": append(profile.SourceFilters("hub"), profile.PresenceFilter("hub", "")),
			"c1":  append(profile.AgentFilters("c1"), profile.PresenceFilter("", "c1")),
		} {
			for _, filter := range filters {
				a := grpc.Describe(filter, false)
				a.Identity.User = user
				if err := authorizer.Authorize(t.Context(), a); err != nil {
					t.Errorf("%s: filter %q of %s: %v", name, filter, user, err)
				}
			}
		}
	}
}
