// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package codec turns ManifestWorks into CloudEvents and back.
//
// A source (a controller on the hub) sends ManifestWorks to the agents of managed clusters over a broker, and
// gets their statuses back. This package is the wire format of that traffic: topics, attributes and data. It
// does no I/O and starts nothing; every function is one from values to values. Use it to write a source or an
// agent of your own, a bridge, or a tool that looks into the traffic. Those who want a ManifestWork clientset
// need cloudevents/work instead, which is built on it.
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
// A [Message] is one of six. The default profile [ManifestWork] publishes each on a topic of its own and says in the
// CloudEvents type what it is (io.open-cluster-management.v1.manifestwork. and the word below):
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
// Profile.SourceFilters, Profile.AgentFilters and Profile.PresenceFilter give the filters to
// subscribe to. Updates and deletions go out as spec.created too; spec.updated and spec.deleted are
// read.
//
// # Attributes
//
// Attribute names are written in lower case and read in any. Numbers are decimal strings, because a CloudEvents
// Integer has 32 bits; JSON numbers are read as exact 64 bits. The format's own:
//
//	resourceid, resourceversion            spec: which work, and the protocol's version
//	deletiontimestamp                      spec: the work shall go; RFC 3339, UTC
//	specresourceid, specresourceversion    status: what of the spec it answers; the version is written under the
//	                                       misspelt specresouceversion too, and the correct one wins on read
//
// Ours, absent from peers that know only the format's own, and then defaulted:
//
//	clustername, workname, workuid         what the event is about (default: the topic's cluster, the resource ID)
//	agentsession, statusseq                spec: the agent process and the status that the source last heard of
//	sequenceid, statushash                 status: its place in the order of statuses, and its hash
//	resyncid, chunkindex, chunkcount       resync: which request, and which part of it
//	resyncscope, buckets, targetsource     resync: what it covers, and who shall answer
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
// The metadata has labels, annotations, ownerReferences, generation and creationTimestamp. The orphaning rules are
// deleteOption.selectiveOrphaningRules; the API's selectivelyOrphans.orphaningRules is read as well. Keys are
// case-sensitive, unknown ones are ignored, and of two with one name the last counts.
//
// # The profile ManifestBundle
//
// [ManifestBundle] is what sources and agents built on the OCM SDK
// (open-cluster-management.io/sdk-go v1.3.0) speak. Its events travel in the binary content mode
// ([Traits]): MQTT user properties with the prefix ce-. [NewManifestBundle] makes it with other
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
// of a message says which. That of a [Presence], which the OCM SDK does not have, ends with
// presence instead. What is another than in ManifestWork:
//
//   - clustername and originalsource are always there, if only empty. originalsource has the source in what agents
//     publish.
//   - resourceid is another formula ([Profile].ResourceID), on status events too. resourceversion is a CloudEvents
//     Integer, so at most 2^31-1, and 0 for works without versions.
//   - metadata is the object's whole metadata as JSON, at most 64 KiB, in spec and status events; its uid is the resource
//     ID, and finalizers are in it. logtracing repeats the annotations that begin with
//     logging.open-cluster-management.io/.
//   - sequenceid is required on status events, and statushash computed as the OCM SDK does ([Profile].StatusHash). The
//     last sequence that a source accepted is in the annotation [AnnotationSequenceID] of its specs.
//   - The data spells executer, has resourceStatus as the list of manifest conditions, and nothing in a deletion. A
//     request has its list even when it is empty; versions in it are numbers.
//   - Decode notes on works what their agents note: [AnnotationDataType], [LabelOriginalSource].
//   - There is no place for incarnations, sessions, scopes, chunks and resync IDs. Encode leaves the first two out, and
//     refuses what would mean something else without the others.
//
// # Guarantees
//
//   - What Encode accepts, Decode gives back: every field of a ManifestWork's spec and status, times to the second.
//   - Manifests stay the bytes they are. Encode validates and copies them; Decode copies them too, so that a work
//     does not keep its event alive, but those of a work with more than 8 KiB are slices of the event.
//   - Decode rejects an event whose cluster or source differs from the topic ([CodeMismatch]), so a
//     broker's rules for topics separate sources and clusters. [ManifestWork] also rejects a
//     resource ID that does not match the work. In [ManifestBundle] sources choose the resource
//     IDs, so Decode accepts any.
//   - No input panics or exhausts the stack: JSON is at most [MaxDepth] levels deep, and what names something at most
//     [MaxIDLength] bytes long, a status hash [MaxHashLength].
//   - The lists of an event have at most [MaxElements] elements together, as elements of two bytes
//     take hundreds in memory.
//   - Every refusal is an [*Error] with a [Code], the field and the reason, without any content of
//     manifests, and of bounded length.
//   - Everything is safe for concurrent use.
//
// # What it does not do
//
// It decides nothing: which version is newer, what to answer, when to ask again. It keeps no state
// and never looks at a clock. It does not limit the size of an event. Long resync requests can be
// split ([SplitSpecResync]). It does not default or validate a work as the API server does.
// Finalizers, UID and resourceVersion of the API object do not travel.
package codec
