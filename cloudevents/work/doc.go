// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package work sends ManifestWorks to clusters over a broker. A [Source] runs on the hub, sends
// works to any number of clusters, and receives their statuses. An [Agent] serves the works of one
// cluster. Both have a clientset with the generated interface
// (open-cluster-management.io/api/client/work), so a hub controller or a work agent changes only
// its constructor. Works travel as CloudEvents and are not stored in the hub's etcd.
//
// On the hub:
//
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker:8883", CAFile: "ca.crt"})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "rollouts"})
//	go source.Start(ctx)
//	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
//	_, err = works.Create(ctx, manifestWork, metav1.CreateOptions{})
//	err = source.InventoryComplete(ctx) // when all works are created
//
// On a managed cluster, in a process with a transport of its own:
//
//	agent, err := work.NewAgent(transport, work.AgentOptions{
//		ClusterName: "cluster1", Sources: []string{"rollouts"},
//	})
//	go agent.Start(ctx)
//	factory := workinformers.NewSharedInformerFactory(agent.Clientset(), 0)
//
// A work controller adds a finalizer before it applies a work, and removes it after the cleanup.
// Then the agent reports the work as gone. Use workv1.ManifestWorkFinalizer. If the agent restarts
// without a Store while a work is deleted, it receives the work with an empty spec and only this
// finalizer. Set AgentOptions.Store or record the objects of works with package appliedwork;
// otherwise these objects stay. A controller that prunes must wait for the first complete list.
//
// Complete programs: see the examples HubController, MinimalAgent and PruneAfterSync.
//
// For other clients than the clientset, use package restconfig (controller-runtime and client-go, in
// the same process) or package apiserver (kubectl and all other clients of a cluster).
//
// A source or an agent can be used before Start: writes are queued in the outbox. With SharedGroup,
// or with the outbox [Disabled], writes before Start fail. To stop, cancel ctx, wait until Start
// returns, then close the Store. Start publishes queued works for at most DrainTimeout after ctx
// ends. Logs go to klog.
//
// # Guarantees
//
// These hold with default options, and in both profiles (wire formats, see [codec.Profile]) unless
// a guarantee names a profile:
//
//   - A write that returned nil is delivered if the source's process keeps running or has a
//     [Store], even if the broker, the agent or the connection fails repeatedly. When Start ends, a
//     Store has every such write. Without a Store, Start publishes these writes for at most
//     DrainTimeout and logs the number of lost writes.
//   - While both sides stay connected, the silent loss of an event is repaired within 90 s. Ten
//     thousand messages lost at once are repaired within 5 min, at most 256 at a time. The source
//     sends an unconfirmed work again after 10 s, then with backoff up to 5 min. Peers of the
//     profile ManifestBundle, and peers that support only OCM's enhancement (see package codec),
//     have no digests (hashes of their works). With these peers, a full comparison every 10 min
//     repairs a lost status, unless ResyncInterval is negative.
//   - An unconfirmed work is visible: on the object after 30 s ([ConditionDelivered]), in
//     [Source.Clusters], and in the metric works_unconfirmed. [Source.Clusters] also returns the
//     time of each agent's last message.
//   - Late, repeated or reordered events never replace newer state. Each work has a version that
//     orders all its events, across deletion and re-creation. A late "gone" of an old work removes
//     no new work and ends no newer deletion. Versions and sequences follow the clock of the
//     sender. An event that is more than a day ahead of the clock, by its version, sequence or
//     time, is refused and counted.
//   - A list is complete, or it is an error. If an agent names its Sources, its first list waits
//     until each source has marked the end of its answer. A source without a Store does so after
//     [Source.InventoryComplete]. Sources of the profile ManifestBundle, and sources that support
//     only OCM's enhancement, mark no end: they count as complete after
//     [AgentOptions].InitialSyncTimeout without an event. PartialSyncTimeout and a negative
//     InitialSyncTimeout allow partial lists. Lists can also be partial in two cases. A source with
//     a new Store marks the end as soon as it has one work for the cluster. Before a restored
//     backup is detected, an agent without a Store receives only the works of the backup.
//   - After a restored backup, or while two processes have one ID, the source deletes no unknown
//     works (works that only the agent has). Exceptions: InventoryComplete is called after the
//     detection and before the missing works are created; the broker refuses the presence topic
//     (see ACCESS.md), or loses three messages of this topic in a row.
//   - A spec or status that the schema of the CRD forbids is rejected by its sender and by its
//     receiver, and counted with the reason schema. The work has the condition Degraded.
//   - The memory that one cluster can make a source keep is bounded in bytes: see MaxClusterBytes,
//     MaxBytes and WatchCacheBytes in [SourceOptions]. The memory that one source can make an agent
//     keep is bounded by MaxSourceBytes in [AgentOptions], except for statuses and for works in its
//     Store. The memory of a work is freed when the work is gone.
//   - A call returns within 50 ms after its context has ended, even while a Store does not answer.
//   - Each idle pair of source and agent of the profile ManifestWork costs one message of less than
//     300 bytes a minute, and each source costs another.
//
// # Limits
//
// Without a Store, a program must create its works again after a restart and then call
// [Source.InventoryComplete]. Until then the source deletes no unknown works, and agents that name
// it wait with their first list. If two sources have works of one name on a cluster, the first work
// keeps the name. The other work gets the condition Degraded, reason NameConflict. An object is
// limited by the broker's packet limit.
//
// # Pages
//
// These Markdown pages are next to the package:
//
//   - API.md: verbs, versions of lists and watches, conditions, every difference from an API
//     server.
//   - STORES.md: restarts, stores, backups, replicas and duplicate processes.
//   - ACCESS.md: the broker's access rules. METRICS.md: metrics, traces and probes.
//   - MIGRATION.md: from the typed clientset and from the OCM SDK.
//   - PROTOCOL.md: the rules of the protocol and their reasons.
package work
