// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	ce "github.com/cloudevents/sdk-go/v2/event"
)

// Profile is one wire format: its topics, event types, attributes and data. All methods are pure and safe
// for concurrent use.
type Profile interface {
	// Name is the profile's name, such as "ManifestWork".
	Name() string

	// SourceFilters returns the topic filters that a source subscribes to, AgentFilters those of the agent
	// of a cluster. Names must pass [ValidateName].
	SourceFilters(source string) []string
	AgentFilters(cluster string) []string

	// Encode makes the event of a message and the topic that it goes to. It returns an [*Error] when the
	// message lacks something or holds what cannot be expressed. The event's data is new; m is not changed.
	Encode(m Message) (topic string, e *ce.Event, err error)

	// Decode reads an event that came on a topic. It returns an [*Error] that says which topic level,
	// attribute or field is wrong. When a [Spec]'s attributes are good and only its data is not, Decode
	// returns the message without Work beside the error, whose Code is [CodeData], so that the sender
	// can be told. Raw manifests in the result share memory with the event's data.
	Decode(topic string, e *ce.Event) (Message, error)

	// sealed keeps the set of profiles ours, so that methods can be added.
	sealed()
}
