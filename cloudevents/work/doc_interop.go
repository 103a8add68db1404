// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// # Coming from the OCM SDK
//
// With the profile [codec.ManifestBundle], sources and agents work with those of open-cluster-management.io/sdk-go
// v1.3.0: either side can be changed first, one process at a time.
//
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Profile: codec.ManifestBundle})
//	agent, err := work.NewAgent(transport, work.AgentOptions{
//		ClusterName: "cluster1", Sources: []string{"hub"}, Profile: codec.ManifestBundle,
//	})
//
// What to write instead:
//
//	OCM SDK                                         here
//	NewGenericClientOptions, NewSourceClientHolder  [NewSource]
//	… NewAgentClientHolder                          [NewAgent]
//	holder.WorkInterface()                          Clientset(), of both
//	NewManifestBundleCodec                          Profile: [codec.ManifestBundle]
//	SourceInformerWatcherStore, SetInformer,        none: the source and the agent keep the works, and any number of
//	  AgentInformerWatcherStore                       informers reads them
//	WithSourceID, WithClusterName                   [SourceOptions].SourceID, [AgentOptions].ClusterName
//	client ID of an agent                           [AgentOptions].AgentID
//	MQTTOptions.Topics                              [codec.NewManifestBundle]: the fixed words and the shared group;
//	                                                  the one source that an agent's topics name is AgentOptions.Sources
//	MQTTOptions.Dialer, BuildMQTTOptionsFromFlags   mqtt.Options, mqtt.LoadOptions
//	EventRateLimit (50/s unless set)                QPS and Burst (no limit unless set)
//	DelayFn                                         none: 100 ms to 10 s, by each client
//
// What behaves in another way:
//
//   - A source's clientset has Update and all of Delete; an agent's has UpdateStatus. Writes wait in the outbox while
//     the broker is away, instead of failing.
//   - Works have versions without the annotation cloudevents.open-cluster-management.io/resourceversion: the source counts
//     every write, goes above what its agents have after a restart, and metadata.generation follows, since agents put
//     the version into observedGeneration. So does a work whose name one had before that is gone; over a restart it takes
//     a [Store] to know of that. The annotation's value "0" asks for a work without versions, which is sent again at
//     every resync; any other value is ignored.
//   - The UID of an object is its own; the resource ID is only on the wire. Of a source's finalizers only
//     cluster.open-cluster-management.io/manifest-work-cleanup reaches agents.
//   - A deleted work stays at the source until its agent reports it gone, also when it was never reported on.
//   - An agent serves any number of sources. With [AgentOptions].Sources it asks each on its own topic; without, it asks
//     all on clusters/<cluster>/agentbroadcast, which those of the OCM SDK hear only if their topics have it.
//   - Metadata travels in an attribute: what would exceed its 64 KiB is refused with RequestEntityTooLarge.
//
// What the format cannot do, whoever is on the other side: lists are not split, so that a broker's packet limit bounds
// how many works a cluster can have; the end of an answer is not marked, so that an agent's first list always waits for
// [AgentOptions].InitialSyncTimeout; and a source that restarts without a store is told from its earlier self only by its
// works' versions and times of creation.
package work
