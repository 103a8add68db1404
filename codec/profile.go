// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Profile is one wire format: its topics, event types, attributes and data. All methods are pure and safe
// for concurrent use.
type Profile interface {
	// Name is the profile's name, such as "ManifestWork".
	Name() string

	// Traits returns what holds for the profile as a whole.
	Traits() Traits

	// SourceFilters returns the topic filters that a source subscribes to, AgentFilters those of the agent
	// of a cluster. Names must pass [ValidateName].
	SourceFilters(source string) []string
	AgentFilters(cluster string) []string

	// PresenceFilter returns the topic of the [Presence] of a source, or, where source is empty, of a cluster's
	// agent. Its processes subscribe to it and publish on it.
	PresenceFilter(source, cluster string) string

	// ResourceID returns the resource ID of a work: the same after any restart. It is unique among the works
	// of one source on one cluster; only with [ManifestWork] also among those of all clusters.
	ResourceID(source, cluster, name string) string

	// StatusHash returns the hash by which source and agent find out whether they hold the same status. A nil
	// status counts as an empty one. The error is as that of the function [StatusHash].
	StatusHash(status *workv1.ManifestWorkStatus) (string, error)

	// Encode makes the event of a message and the topic that it goes to. It returns an [*Error] when the
	// message lacks something or holds what cannot be expressed. The event's data is new; m is not changed.
	Encode(m Message) (topic string, e *ce.Event, err error)

	// Decode reads an event that came on a topic. It returns an [*Error] that says which topic level,
	// attribute or field is wrong. When a [Spec]'s attributes are good and only its data is not, Decode
	// returns the message without Work beside the error, whose Code is [CodeData], so that the sender
	// can be told. Raw manifests in the result may share memory with the event's data.
	Decode(topic string, e *ce.Event) (Message, error)

	// sealed keeps the set of profiles ours, so that methods can be added.
	sealed()
}

// IsResync reports whether an event of any profile is a [SpecResync] or a [StatusResync], by its type alone. Such an
// event can be long, and what it asks for is not urgent.
func IsResync(e *ce.Event) bool {
	if e == nil {
		return false
	}
	return strings.HasSuffix(e.Type(), resyncRequested) || strings.HasSuffix(e.Type(), "."+wireResyncRequest)
}

// Traits says what holds for a profile as a whole, for who builds a source or an agent on it.
type Traits struct {
	// Binary is whether events travel in the binary content mode: attributes beside the data.
	Binary bool
	// Strict is whether the format has no place for incarnations, sessions, scopes, chunks and the IDs of
	// resyncs, so that no peer can be expected to know them. Encode leaves UIDs and sessions out, and
	// refuses scopes and chunks that would change what a request means.
	Strict bool
	// MaxVersion is the greatest version that an event can carry.
	MaxVersion int64
}
