// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"reflect"
	"strings"

	ce "github.com/cloudevents/sdk-go/v2/event"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Profile is one wire format: its topics, event types, attributes and data. All methods are pure
// and safe for concurrent use.
type Profile interface { //nolint:interfacebloat // sealed: only this package implements it
	// Name returns the profile's name, such as "ManifestWork".
	Name() string

	// Traits returns the properties of the profile as a whole.
	Traits() Traits

	// SourceFilters returns the topic filters that a source subscribes to, AgentFilters the filters
	// of the agent of a cluster. Names must pass [ValidateName].
	SourceFilters(source string) []string
	AgentFilters(cluster string) []string

	// PresenceFilter returns the topic of the [Presence] of a source, or, if source is empty, of a
	// cluster's agent. The processes of that source or agent subscribe to the topic and publish on
	// it.
	PresenceFilter(source, cluster string) string

	// ResourceID returns the resource ID of a work: the same after any restart. It is unique among
	// the works of one source on one cluster and, with [ManifestWork], on all clusters.
	ResourceID(source, cluster, name string) string

	// StatusHash returns the hash by which source and agent compare their statuses. A nil status
	// counts as an empty one. The error is like that of the function [StatusHash].
	StatusHash(status *workv1.ManifestWorkStatus) (string, error)

	// Encode returns the event of a message and its topic. It returns an [*Error] if the message is
	// incomplete or cannot be expressed. The event's data is new; m is not changed.
	Encode(m Message) (topic string, e *ce.Event, err error)

	// Decode reads an event from a topic. It returns an [*Error] with the wrong topic level,
	// attribute or field. If only the data of a [Spec] is invalid, Decode returns an error with Code
	// [CodeData], and also the message, with a nil Work. So the receiver can report the error to the
	// sender. Raw manifests in the result may share memory with the event's data.
	Decode(topic string, e *ce.Event) (Message, error)

	// sealed prevents other implementations, so that methods can be added.
	sealed()
}

// Traits are properties of a profile as a whole, for implementations of a source or an agent.
type Traits struct {
	// Binary is whether events are sent in the binary content mode: attributes next to the data.
	Binary bool
	// Bundle is whether the profile is [ManifestBundle]: the format cannot express incarnations,
	// sessions, scopes, chunks and the IDs of resyncs. Encode omits UIDs and sessions, and refuses
	// scopes and chunks that would change the meaning of a request.
	Bundle bool
	// MaxVersion is the largest version that an event can carry.
	MaxVersion int64
}

// IsResync reports whether an event of any profile is a [SpecResync] or a [StatusResync], by its
// type alone. Such an event can be long, and its answers are not urgent.
func IsResync(e *ce.Event) bool {
	if e == nil {
		return false
	}
	return strings.HasSuffix(e.Type(), resyncRequested) || strings.HasSuffix(e.Type(), "."+wireResyncRequest)
}

// IsPresence reports whether an event of any profile is a [Presence], by its type alone.
func IsPresence(e *ce.Event) bool {
	return e != nil && (e.Type() == typePresence || e.Type() == bundleType+"."+wirePresence)
}

// IsDigest reports whether an event is a [Digest], by its type alone.
func IsDigest(e *ce.Event) bool { return e != nil && e.Type() == typeDigest }

// drafter writes each kind of message of a profile to a draft.
type drafter interface { //nolint:interfacebloat // a method for each message
	spec(*Spec)
	status(*Status)
	specResync(*SpecResync)
	statusResync(*StatusResync)
	digest(*Digest)
	presence(*Presence)
}

// encode writes m to the draft with as, and returns the topic and the event.
func (d *draft) encode(m Message, as drafter) (string, *ce.Event, error) {
	if v := reflect.ValueOf(m); v.Kind() == reflect.Pointer && v.IsNil() {
		m = nil
	}
	switch m := m.(type) {
	case *Spec:
		as.spec(m)
	case *Status:
		as.status(m)
	case *SpecResync:
		as.specResync(m)
	case *StatusResync:
		as.statusResync(m)
	case *Digest:
		as.digest(m)
	case *Presence:
		as.presence(m)
	default:
		return "", nil, &Error{Code: CodeType, Reason: "the message is nil"}
	}
	h := m.Head()
	if d.err != nil {
		d.err.EventID = h.ID
		return "", nil, d.err
	}
	return d.topic, d.event(h), nil
}
