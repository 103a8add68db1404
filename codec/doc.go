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
// There are six kinds of [Message]. The default profile [ManifestWork] publishes each kind on its
// own topic. The CloudEvents type identifies the kind (io.open-cluster-management.v1.manifestwork.
// and the word below):
//
//	[Spec]          source to agent   /sources/<source>/clusters/<cluster>/manifests             spec.created
//	[Status]        agent to source   /sources/<source>/clusters/<cluster>/manifestsstatus       status.created
//	[SpecResync]    agent to sources  /sources/resync/<cluster>/manifests                        specresync.requested
//	                … to one source   /sources/<source>/clusters/<cluster>/specresync
//	[Digest]        agent to source   /sources/<source>/clusters/<cluster>/specresync            digest
//	[StatusResync]  source to agents  /sources/<source>/resync/clusters/manifestsstatus          statusresync.requested
//	                … to one agent    /sources/<source>/clusters/<cluster>/statusresync
//	[Presence]      among processes   /sources/<source>/presence                                 presence
//	                … of one ID       /clusters/<cluster>/presence
//
// Profile.SourceFilters, Profile.AgentFilters and Profile.PresenceFilter return the filters to
// subscribe to. Updates and deletions are sent as spec.created too; spec.updated and spec.deleted
// are read.
//
// # Attributes
//
// Attribute names are written in lower case and read in any. Numbers are decimal strings, because a
// CloudEvents Integer has 32 bits; JSON numbers are read as exact 64 bits. The format has these
// attributes:
//
//	resourceid, resourceversion            spec: which work, and the protocol's version
//	deletiontimestamp                      spec: the work must be deleted; RFC 3339, UTC
//	specresourceid, specresourceversion    status: the spec that it answers; the version is also written under the
//	                                       misspelt specresouceversion; the correct name has priority on read
//
// This SDK adds these attributes. Peers that know only those of the format do not send them; they
// then have their defaults:
//
//	clustername, workname, workuid         the work of the event (default: the topic's cluster, the resource ID)
//	agentsession, statusseq                spec: the agent process and the status that the source received last
//	sequenceid, statushash                 status: its position in the order of statuses, and its hash
//	resyncid, chunkindex, chunkcount       resync: which request, and which part of it
//	resyncscope, buckets, targetsource     resync: the works that it covers, and the source that must answer
//	digest                                 digest: the number of works, and the sums of their hashes in hexadecimal
//	traceparent                            W3C trace context
//
// # Data
//
//	spec     {"metadata":{…},"manifests":[…],"deleteOption":{…},"manifestConfigs":[…],"executor":{…}}
//	delete   {"metadata":{…}}
//	status   {"conditions":[…],"resourceStatus":{"manifestConditions":[…]}}
//	resync   {"resourceVersions":[{"resourceID":"…","resourceVersion":"3",…}]}
//	         {"statusHashes":[{"resourceID":"…","statusHash":"…",…}]}
//
// The metadata has labels, annotations, ownerReferences, generation and creationTimestamp. The
// orphaning rules are deleteOption.selectiveOrphaningRules; the API's
// selectivelyOrphans.orphaningRules is read as well. Keys are case-sensitive, unknown ones are
// ignored, and of two with one name the last counts.
//
// # The profile ManifestBundle
//
// [ManifestBundle] is the profile of sources and agents built on the OCM SDK
// (open-cluster-management.io/sdk-go v1.3.0). Its events are sent in the binary content mode
// ([Traits]): MQTT user properties with the prefix ce-. [NewManifestBundle] returns it with other
// words in the topics and with shared subscriptions.
//
//	[Spec], [StatusResync]   source to agent    sources/<source>/clusters/<cluster>/sourceevents
//	[Status], [SpecResync]   agent to source    sources/<source>/clusters/<cluster>/agentevents
//	[StatusResync]           … to all agents    sources/<source>/sourcebroadcast
//	[SpecResync]             … to all sources   clusters/<cluster>/agentbroadcast
//	[Presence]               among processes    sources/<source>/presence and clusters/<cluster>/presence
//
// The type is io.open-cluster-management.works.v1alpha1.manifestbundles.<spec|status>. and
// create_request, update_request, delete_request, resync_request or resync_response; the [Action]
// of a message selects it. The type of a [Presence], which the OCM SDK does not have, ends with
// presence instead. The differences from ManifestWork are:
//
//   - clustername and originalsource are always present, even if empty. In events of agents,
//     originalsource has the source.
//   - resourceid has another formula ([Profile].ResourceID), on status events too. resourceversion
//     is a CloudEvents Integer: at most 2^31-1, and 0 for works without versions.
//   - metadata is the object's whole metadata as JSON, at most 64 KiB, in spec and status events;
//     its uid is the resource ID, and it includes finalizers. logtracing repeats the annotations
//     that begin with logging.open-cluster-management.io/.
//   - sequenceid is required on status events, and statushash is computed as in the OCM SDK
//     ([Profile].StatusHash). The last sequence that a source accepted is in the annotation
//     [AnnotationSequenceID] of its specs.
//   - The data has the spelling executer, and resourceStatus is the list of manifest conditions. A
//     deletion has no data. A request has its list even if it is empty; versions in it are numbers.
//   - Decode sets the same keys on works as OCM agents: [AnnotationDataType],
//     [LabelOriginalSource].
//   - It cannot express incarnations, sessions, scopes, chunks and resync IDs. Encode omits
//     incarnations and sessions. It refuses messages that would have another meaning without the
//     others.
//
// # Guarantees
//
//   - Decode returns all that Encode accepts: every field of a ManifestWork's spec and status,
//     times to the second.
//   - The bytes of manifests do not change. Encode validates and copies them. Decode copies them
//     too, so that a work does not keep its event in memory, unless they exceed 8 KiB: then they
//     are slices of the event.
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
// Events do not carry UID and resourceVersion of the API object, and finalizers only in
// [ManifestBundle].
package codec
