// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package codec turns ManifestWorks into CloudEvents and back.
//
// A source (a controller on the hub) sends ManifestWorks to the agents of managed clusters over a
// broker, and receives their statuses. This package is the wire format of these events: topics,
// attributes and data. It does no I/O and starts no goroutines; every function converts values to
// values. Use it to write your own source or agent, a bridge, or a tool that inspects events. For a
// ManifestWork clientset use cloudevents/work, which is built on it.
//
//	spec := &codec.Spec{
//		Header: codec.Header{ID: uuid.NewString(), Time: time.Now(), Source: "my-controller", Cluster: "cluster1"},
//		WorkRef: codec.WorkRef{
//			ResourceID: codec.ResourceID("my-controller", "cluster1", work.Name),
//			Version:    1,
//			Name:       work.Name,
//		},
//		Work: work,
//	}
//	topic, event, err := codec.ManifestWork.Encode(spec)
//	if err != nil {
//		return err
//	}
//	payload, err := codec.AppendStructured(nil, event)
//	if err != nil {
//		return err
//	}
//	publish(topic, codec.ContentTypeStructured, payload)
//
// and on the other side
//
//	event, err := codec.ParseStructured(payload)
//	if err != nil {
//		return err
//	}
//	message, err := codec.ManifestWork.Decode(topic, event)
//	switch m := message.(type) {
//	case *codec.Spec:
//		apply(m.Work)
//	…
//
// # Messages
//
// There are six kinds of [Message]:
//
//	[Spec]          source to agent               the desired state of a work, or its deletion
//	[Status]        agent to source               the status of a work
//	[SpecResync]    agent to one or all sources   request for specs
//	[StatusResync]  source to one or all agents   request for statuses
//	[Digest]        agent to source               heartbeat with a summary of the agent's works
//	[Presence]      among processes of one ID     heartbeat of a process
//
// Profile.SourceFilters, Profile.AgentFilters and Profile.PresenceFilter return the topic filters to
// subscribe to.
//
// # Profiles
//
// A [Profile] is a wire format: topics, event types, attributes and data.
//
// [ManifestWork] is the format of OCM's [enhancement] for event based ManifestWorks, and the
// default. The profile adds attributes, for example for incarnations (UIDs), sequences and resync
// IDs. Peers that know only the enhancement do not send these attributes; the fields of a message
// then have their defaults.
//
// [ManifestBundle] is the format of sources and agents built on the OCM SDK
// (open-cluster-management.io/sdk-go v1.3.0). Its events are sent in the binary content mode
// ([Traits]). [NewManifestBundle] returns the profile with other fixed words in the topics, or with
// shared subscriptions. The format cannot express incarnations, sessions and scopes, and has no
// [Digest]. The OCM SDK handles each chunk of a list as a list of its own: see FORMAT.md.
//
// FORMAT.md in this folder has the topics, attributes and data of both.
//
// # Guarantees
//
//   - Decode returns all that Encode accepts: every field of a ManifestWork's spec and status,
//     times to the second.
//   - The bytes of manifests do not change. Encode validates and copies them. Decode copies the
//     manifests of a work if they have at most 8 KiB together; the work then does not keep its
//     event in memory. Larger manifests are slices of the event.
//   - Decode rejects an event if its cluster or source differs from the topic ([CodeMismatch]), so
//     a broker's access rules for topics separate sources and clusters. [ManifestWork] also rejects
//     a resource ID that does not match the work. In [ManifestBundle] sources choose the resource
//     IDs, so Decode accepts any.
//   - No input causes a panic or exhausts the stack: JSON has at most [MaxDepth] levels, an
//     identifier at most [MaxIDLength] bytes, a status hash [MaxHashLength].
//   - The lists of an event have at most [MaxElements] elements together, since an element of two
//     bytes can take hundreds of bytes in memory.
//   - Every refusal is an [*Error] with a [Code], the field and the reason, without any content of
//     manifests, and of bounded length.
//   - Everything is safe for concurrent use.
//
// # What it does not do
//
// It makes no decisions: which version is newer, what to answer, when to send a request again. It
// keeps no state and reads no clock. It does not limit the size of an event. Long resync requests
// can be split ([SplitSpecResync]). It does not default or validate a work as the API server does.
// Events do not carry the resourceVersion of the API object. They carry its UID only as
// [WorkRef].UID in ManifestWork, and finalizers only in ManifestBundle.
//
// [enhancement]: https://github.com/open-cluster-management-io/enhancements/tree/main/enhancements/sig-architecture/78-event-based-manifestwork
package codec
