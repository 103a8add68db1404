// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package work has the two ends of the wire: a [Source] sends ManifestWorks to any number of clusters and shows
// what they report, an [Agent] serves those of one cluster. Both have a clientset with the generated interface
// (open-cluster-management.io/api/client/work), so a hub controller or a work agent changes its constructor
// and nothing else. The works travel as CloudEvents over a broker; none is stored in the hub's etcd.
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
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"rollouts"}})
//	go agent.Start(ctx)
//	factory := workinformers.NewSharedInformerFactory(agent.Clientset(), 0)
//
// A work controller adds its own finalizer before it applies a work, and removes it when it has cleaned up.
// The agent then reports the work gone.
//
// The clientsets work before Start: written works wait in the outbox. With SharedGroup, or with the outbox
// [Disabled], writes before Start fail. To stop, cancel ctx, wait until Start has returned, then close the
// Store. After ctx ends, Start publishes queued works for at most DrainTimeout. Logs go to klog.
//
// # Verbs
//
//	verb                      source                              agent
//	Create                    yes, generateName and dryRun        MethodNotSupported
//	Update                    spec and metadata                   finalizers, labels, annotations;
//	                                                              Invalid for spec and owners
//	UpdateStatus, Patch of    MethodNotSupported: the status      yes, published to the work's source
//	  "status"                belongs to agents
//	Patch: JSON, merge,       yes; apply also creates             metadata and status
//	  server-side apply
//	Patch: strategic          UnsupportedMediaType, as for any custom resource
//	Delete, DeleteCollection  yes, preconditions, propagation     MethodNotSupported
//	                          and dryRun
//	Get, List                 any namespace, selectors, pages,    its cluster
//	                          earlier versions
//	Watch                     any number, selectors, resuming,    likewise
//	                          bookmarks, initial events
//
// Errors are StatusErrors with the API server's reasons, codes, details and causes; MethodNotSupported is the
// reason MethodNotAllowed, which apierrors.IsMethodNotSupported reports. A call with an ended context returns
// the context's error. Objects get the defaults of the ManifestWork CRD and are held to its schema; applies
// merge by it, with managers, conflicts and force as on the API server. All pages of a list show the version of
// its first page. A list of exactly one version shows that version, and a watch from a version continues there.
//
// A watch resumes from a version, and a list reads it, while all of the following hold. Otherwise a list
// returns the error Expired, and a watch delivers it as its only event, of type ERROR, as the API server does:
//
//   - the version is from this process, not from before a restart;
//   - at most 1,024 changes, or a third of the number of works if that is more, are newer. Changes are writes
//     of the clientset, received events and conditions that the source sets;
//   - all these changes are younger than [SourceOptions].WatchCacheTTL, 5 minutes by default;
//   - the versions that they replaced take at most WatchCacheBytes, 16 MiB by default, with 128 bytes for each
//     change. Manifests that two versions of a work share count once.
//
// Later changes do not expire a list in pages. Its snapshot is kept for WatchCacheTTL after each page, for the
// eight most recently read lists, within WatchCacheBytes for all of them. The error Expired of a page has a
// token that returns the rest of the current works. A watch ends with Expired if its unread events take more
// than WatchCacheBytes; its initial events do not count. A list or watch of one metadata.name uses an index.
// The clients of other resources, discovery and the REST client exist and return MethodNotSupported.
//
// # What differs from the API server
//
// The tests run one suite of calls on a kube-apiserver, on a source and on an agent. The list below has every
// difference.
//
//   - A namespace is a cluster's name and always exists. An agent has its own cluster's works, whatever the
//     namespace.
//   - A source cannot write the status, and an agent cannot create or delete works: these verbs return
//     MethodNotSupported. On an agent, an apply of an unknown work returns NotFound.
//   - An agent's change of the spec or of the ownerReferences, which the API server would take, is Invalid.
//   - On an agent, a change of metadata through the clientset stays on the cluster. A key that the source
//     changes afterwards gets the source's value. The source sends labels, annotations and ownerReferences.
//     Each side has its own UID, generateName and finalizers: a finalizer at the source does not block the
//     agent, and a finalizer at the agent does not block other controllers at the source.
//   - On a source, a deleted work stays, with a deletionTimestamp and the finalizer
//     cluster.open-cluster-management.io/manifest-work-cleanup, until its agent reports it gone,
//     [Source.Abandon] gives up on the work, or [Source.Forget] on the cluster. The removal of another
//     controller's last finalizer is therefore a MODIFIED event, not DELETED.
//   - Every policy of propagation ends as on a cluster whose garbage collector is done: nothing on a source
//     depends on a work. So the finalizers foregroundDeletion and orphan are taken off when the deletion
//     begins, and are not put on. The deleteOption of the spec decides which applied objects are deleted.
//     ownerReferences are kept and have no effect.
//   - After a restart of the agent, a deleted work gets the clean-up finalizer on the agent too, until a
//     controller removes it: an earlier process may have applied the work.
//   - managedFields begin with the first apply: earlier fields belong to the manager "before-first-apply". A
//     write that changes only managedFields is no change. Each side has its own managedFields, which do not
//     track changes that the other side sends.
//   - Manifests keep their bytes. The API server takes unknown and null members out of their metadata.
//   - Objects are Go values: null, missing and empty are one. So an empty list or object where there was none is no
//     change and no new generation, a JSON patch finds a spec, a workload and a resourceStatus where a patch before it
//     took them away, an apply that gives up the last item of a list is no error, and a typed update adds no empty
//     members to what was applied without them. What no typed client could read or send back is refused: an executor
//     without a subject, and a lastTransitionTime that is a list.
//   - An unknown field in a patch has no effect, as there, but the warning of it is not sent. With fieldValidation
//     Strict it is an error.
//   - Metadata that was invalid before, because its source checks less than an API server, does not block a
//     change of other fields.
//   - The objects that a watch delivers share the bytes of their manifests with the cache: copy these before
//     you edit them in place. A transform may drop any part of the object.
//   - A watch from a version of the future gets the error Timeout, where the API server waits. A read of such a
//     version returns the API server's Timeout immediately.
//   - The broker's packet limit bounds the size of an object: a write beyond it fails with
//     RequestEntityTooLarge. The API server accepts requests of 3 MiB and objects of about half of that. A
//     write to a full outbox fails with TooManyRequests and a delay.
//   - The metadata is checked by this module's apimachinery, so the words of a cause may be those of another
//     release than your API server's.
//   - On an agent, the first list, the end of a watch's initial events, and a Get or a change of an unknown work wait
//     for all named sources. If the context ends first, the error is a Timeout that names the missing sources. See
//     [AgentOptions].InitialSyncTimeout.
//   - On a source, a work that its agent has not confirmed for 30 s gets the condition [ConditionDelivered]
//     with status False. The source removes it when the agent confirms the version. Both are updates with a
//     resourceVersion of their own.
//
// # Coming from the typed clientset
//
// Replace the constructor, and start what it made:
//
//	before  clientset, err := versioned.NewForConfig(restConfig)
//	hub     source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller"})
//	        go source.Start(ctx) // or mgr.Add(source), a manager of controller-runtime: see Probes for leader election
//	        clientset := source.Clientset()
//	agent   agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"my-controller"}})
//	        go agent.Start(ctx)
//	        clientset := agent.Clientset()
//
// Informer factories, listers, workqueues and controller-runtime's source.Informer take the clientset as it is.
// Three things differ. Without a Store, a controller must create its works again after a restart, then call
// [Source.InventoryComplete]. A list returns only the works of this source, not those of other controllers. The
// broker's access control on topics replaces RBAC on ManifestWorks.
//
// # Guarantees
//
// With default options, in both profiles unless a guarantee names one:
//
//   - A write that returned nil is delivered if the source's process keeps running or has a [Store], however
//     often the broker, the agent or the connection goes away. When Start ends, a Store has every such write;
//     without one, Start publishes them for at most DrainTimeout and logs how many are lost.
//   - A message that is lost in silence, while both sides stay connected, is repaired within 90 s: a create,
//     update, delete, status, "gone", list, chunk, answer or end marker. Ten thousand lost at once are repaired
//     within 5 min, at most 256 at a time. The source sends an unconfirmed work again after 10 s, then with
//     backoff up to 5 min. Peers without digests (those of the profile ManifestBundle, and those that know only
//     the enhancement) compare everything every 10 min instead, which repairs a lost status. With a negative
//     ResyncInterval they do not.
//   - A work that is not confirmed is visible: on the object after 30 s ([ConditionDelivered]), in
//     [Source.Clusters], and in the metric works_unconfirmed. [Source.Clusters] also returns when each agent
//     was last heard.
//   - Late, repeated or reordered events never replace newer state. Each work has a version that orders all its
//     events, across deletion and re-creation. A late "gone" of an old work never removes a new one, nor ends a newer
//     deletion. A version, sequence or event time more than a day ahead of the clock is refused and counted.
//   - A list is complete, or it is an error: if an agent names its Sources, its first list waits until each of
//     them has marked the end of its answer. A source without a Store does so after
//     [Source.InventoryComplete]. Sources of the profile ManifestBundle mark no end: they count as complete
//     after [AgentOptions].InitialSyncTimeout without an event. PartialSyncTimeout and a negative
//     InitialSyncTimeout allow partial lists. Two other lists can be partial: a source with a new Store marks
//     the end as soon as it has one work for the cluster, and while a restored backup is not detected, an
//     agent without a Store receives the works of the backup only.
//   - After a restored backup, or while two processes have one ID, the source deletes no unknown works.
//     Exceptions: InventoryComplete is called after the detection and before the missing works are created;
//     the broker refuses the presence topic, or loses three presences in a row.
//   - A spec or status that the schema of the CRD forbids is rejected by its sender and by its receiver, and
//     counted with the reason schema. The work has the condition Degraded.
//   - The memory that one cluster can make a source keep is bounded in bytes: see MaxClusterBytes, MaxBytes and
//     WatchCacheBytes in [SourceOptions]. The memory that one source can make an agent keep is bounded by
//     MaxSourceBytes in [AgentOptions], except for statuses and for works that its Store has. Memory of works
//     is freed when they are gone.
//   - A call returns within 50 ms after its context has ended, also while a Store hangs.
//   - An idle pair of source and agent of the profile ManifestWork costs one message of less than 300 bytes a minute.
//
// PROTOCOL.md next to this package has the rules and their reasons.
//
// Without a Store a source keeps its works in memory. After a restart, create the works again: agents keep
// works with equal specs and report their status at once. Works that are not created again stay on their
// clusters until [Source.InventoryComplete] is called. The first list of an agent that names the source waits
// for that call too: otherwise the agent could delete works that you are about to create again. So call
// InventoryComplete in every process without a Store when all works are created, or at once if there are
// none. Works that the source then deletes are counted by the metric works, state tombstone, until their
// agents report them gone.
//
// A source that restarts without a Store counts generations from 1 again. On the agent, the generation of a
// work never decreases, and increases when the spec changes or the deletion begins, so a controller may filter
// by it. The agent translates each observedGeneration, of the work or of a manifest, to the generation at the
// source. The value is lower if the status is about an older spec, and 0 if that spec is from before the
// restart.
//
// # Stores and replicas
//
// With a [Store] a source or an agent continues where its last process ended: with its works, statuses,
// resourceVersions, deletions and records of its peers. A watch from a version before the restart gets
// Expired, so an informer lists again. Package boltstore keeps the records in a file:
//
//	store, err := boltstore.Open("works.db", boltstore.Options{})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller", Store: store})
//	err = source.Start(ctx) // until ctx has ended
//	err = store.Close()
//
// A Store also keeps that [Source.InventoryComplete] was called. Call it once for each Store, and again when
// [Source.Healthy] reports an incomplete inventory. Healthy does not report that it was never called; the
// metric inventory_complete does. A program that creates all works again at each start may call it at each
// start. Other programs must not: after a restored backup, a second call deletes the works that are newer.
//
// An agent with the Store of a backup shows works that were deleted since, until the source deletes them
// again. Start it without its Store instead.
//
// Reads return a write immediately. The write returns, and its event is published, only after the Store has
// saved it. In the same way, a received event is acknowledged only after it is saved. Concurrent writes share
// transactions. While the Store fails, writes return InternalError, but may still be visible and be stored
// later. The source then disconnects, so that events are sent again, and Healthy returns the cause. If the
// context of a write ends first, the write returns a Timeout that unwraps to the context's error; it may still
// be stored later.
//
// To back up a boltstore, copy its file while no process uses it. A source detects a restored backup when an
// agent reports a version that its Store never assigned. It then deletes no unknown works of that cluster, logs
// the cluster, and Healthy returns an error. To end that, create the works that are newer than the backup, then
// call InventoryComplete again. A call before the source has detected the backup does not count. With the
// profile ManifestBundle, an agent that returns after [Source.Forget] and a restart triggers the same
// protection.
//
// Several processes can be one source, with [SourceOptions].SharedGroup and a [SharedStore]: see there. Without
// these, two processes with one SourceID detect each other, as two agents of one cluster do. Both log it, and
// Healthy returns an error. The source that started later by its own clock is the newer one. The older one does
// not write, ask or answer, and is not ready; its writes return ServiceUnavailable. While both are connected,
// neither deletes unknown works. After the newer one ends, the older one writes again immediately. It deletes
// no unknown works until InventoryComplete is called. A crashed process is forgotten after 30 s; a stopped one
// immediately. Two agents of one cluster both continue to serve.
//
// After connecting, a process publishes its presence every 5 s and checks for other processes. The check ends
// 12 s after the process received its own presence, plus twice the delay of that presence. So two presences
// in a row may be lost. A source checks again before it deletes an unknown work, which takes 12 to 24 s. A
// source that does not receive its own presence deletes no unknown works, and logs that after a minute.
//
// # Two sources, one name
//
// Works of several sources may meet on a cluster. The first work keeps the name. The other gets the condition
// Degraded, reason NameConflict, and is served when the name is free. A spec that an agent cannot decode is
// answered with Degraded, reason InvalidSpec, and the last good one stays applied. One that the agent has no
// room for is answered with reason SpecRefused, and requested when there is room; see MaxSourceBytes in
// [AgentOptions]. A work that is not sent shows Degraded on the source, in addition to the conditions that its
// agent reports: reason TooLarge where it is over the broker's limit, NotPublished where the broker refuses it,
// as its access rules may, and NotEncodable otherwise. The message has the cause. What the broker refuses is
// logged, takes no room in the outbox, and is tried again on the next connection. The condition goes when the
// work is published, or changed.
//
// # Traces
//
// With [SourceOptions].TraceParent the trace of a write goes with the work to its agent, and with that of
// [AgentOptions] the trace of a status to its source. A controller continues it where it reconciles:
//
//	carrier := propagation.MapCarrier{"traceparent": agent.TraceParent(work.Name)}
//	ctx = propagation.TraceContext{}.Extract(ctx, carrier)
//
// # Access control
//
// These are all topics that a source and an agent use with the default profile, as lines of Mosquitto's
// acl_file: for the source with the ID "hub" and the agent of the cluster "cluster1", whose users at the broker
// have the same names here. Nothing else needs to be allowed, also not to replicas that share a subscription.
//
//	user hub
//	topic write /sources/hub/clusters/+/manifests
//	topic read /sources/hub/clusters/+/manifestsstatus
//	topic read /sources/hub/clusters/+/specresync
//	topic write /sources/hub/clusters/+/statusresync
//	topic write /sources/hub/resync/clusters/manifestsstatus
//	topic read /sources/resync/+/manifests
//	topic readwrite /sources/hub/presence
//
//	user cluster1
//	topic read /sources/+/clusters/cluster1/manifests
//	topic write /sources/+/clusters/cluster1/manifestsstatus
//	topic write /sources/+/clusters/cluster1/specresync
//	topic read /sources/+/clusters/cluster1/statusresync
//	topic read /sources/+/resync/clusters/manifestsstatus
//	topic write /sources/resync/cluster1/manifests
//	topic readwrite /clusters/cluster1/presence
//
// Each process publishes on its presence topic, and reads there of others with its ID. Where the broker refuses
// the topic, everything else works, the deletion of unknown works included: other processes then go unnoticed,
// which is logged. With the profile ManifestBundle the topics are sources/hub/presence and
// clusters/cluster1/presence.
//
// With names in the place of the first + of its lines, a cluster is open to those sources only; name them in
// [AgentOptions].Sources as well. This is for brokers that check each message, as Mosquitto's acl_file does. An agent
// subscribes with +, which a broker that checks subscriptions must allow as it is.
//
// SECURITY.md has the same with patterns, so that a new cluster needs no new lines, and what no broker can fence.
//
// The broker knows who may use a topic, and not what is in an event. Sources and agents see to that: an event
// whose source or cluster is not that of its topic, or whose resource belongs to another source or cluster, is
// refused and logged. So a cluster that was taken over can lie about itself, but not speak for another, nor
// read what others are sent. It does learn the IDs of the sources, and every source learns which works a
// cluster has, by their IDs and versions. A broker that refuses what a source or an agent publishes is logged
// as "An event was not published"; it is tried again on the next connection. Until then the work shows
// Degraded, reason NotPublished, on its source.
//
// # Metrics
//
// With MetricsRegisterer in the options, a source or an agent has the metrics below, from its constructor until
// Start has returned. All begin with spokewire_cloudevents_ and have two labels more: kind, which is source or
// agent, and client, its ID. That of an agent has the name of its cluster in it, unless [AgentOptions].AgentID
// says otherwise; no other label has the name of a cluster, and none that of a work, so that a source has as
// many series for one cluster as for a thousand. Gauges of sizes are read during a scrape, which takes the
// mutex once. Counters do not allocate.
//
//	metric                                type       labels     what
//	events_sent_total                     counter    type       events that the broker has acknowledged
//	events_sent_bytes_total               counter    type       their data, without attributes and topics
//	events_received_total                 counter    type       events that arrived and could be decoded
//	events_received_bytes_total           counter    type       their data
//	events_refused_total                  counter    reason     messages that arrived and could not be used
//	events_dropped_total                  counter    reason     items of the outbox that were given up
//	statuses_total                        counter    outcome    on a source: what became of statuses
//	specs_total                           counter    outcome    on an agent: what became of specs
//	publish_seconds                       histogram  -          from a write until the broker has its event
//	publish_refusals_total                counter    -          publications that the broker answered with an error
//	writes_refused_total                  counter    reason     writes that failed for want of room or a connection
//	outbox_depth                          gauge      lane       what the broker has not acknowledged
//	outbox_inflight                       gauge      -          of that, what was handed to the transport
//	outbox_oldest_seconds                 gauge      -          for how long the oldest news has been waiting
//	outbox_limit                          gauge      -          how many works may wait
//	packet_limit_bytes                    gauge      -          what the broker takes in a message; 0 for no limit
//	connected                             gauge      -          1 while connected and subscribed
//	connection_changed_timestamp_seconds  gauge      -          when that changed last
//	connections_total                     counter    -          connections made; all but the first are reconnects
//	connect_failures_total                counter    permanent  attempts that failed; true: somebody has to act
//	resyncs_total                         counter    -          comparisons begun
//	resync_seconds                        histogram  -          until a peer has answered one in full, for each peer
//	resync_listed_works_total             counter    direction  works named in lists
//	resync_answers_total                  counter    direction  specs and statuses that a list has called for
//	divergences_total                     counter    -          on a source: comparisons that digests have called for
//	works                                 gauge      state      works in the store
//	works_degraded                        gauge      -          those with a condition Degraded of this process
//	works_unconfirmed                     gauge      -          on a source: not shown by an agent in this version
//	clusters                              gauge      -          on a source: those that it knows
//	sources                               gauge      -          on an agent: those that it has heard of
//	inventory_complete                    gauge      -          on a source: 1 after InventoryComplete
//	synced                                gauge      -          on an agent: 1 after the initial sync
//	store_write_seconds                   histogram  -          until the Store has made a batch of changes durable
//	store_write_failures_total            counter    -          batches that the Store did not take
//	store_unsaved                         gauge      -          records that have changed since the Store took them
//	replica_writing                       gauge      -          on a source: 1 where this replica writes, or is the only one
//	replica_events_waiting                gauge      -          on a source: events that wait for the replica that writes
//	watchers                              gauge      -          open watches
//	watchers_closed_total                 counter    reason     watches that were ended with an error
//
// The labels' values:
//
//   - type is the end of the event's type, as spec.created and statusresync.requested.
//   - lane is control for requests, live for news of works, bulk for answers. Works that the broker refuses until the
//     next connection are in live, although they take no room in the outbox. A source's answers to one cluster count as
//     one in bulk until the turn of their events comes.
//   - direction is sent or received, permanent true or false.
//   - reason of events_refused_total: not_an_event; topic, type, attribute, mismatch and data are the codec's;
//     wrong_source, wrong_cluster and version_out_of_range are what a peer must not send; schema is for
//     statuses and specs that the CRD forbids; over_budget for events that exceed MaxClusterBytes,
//     MaxSourceBytes, MaxBytes or MaxStatusBytes; unexpected; and overrun, for messages of QoS 0 that came too
//     fast.
//   - reason of events_dropped_total: too_large, not_encodable, refused_by_broker, and connection_lost for
//     requests and answers, which the next connection makes again.
//   - reason of writes_refused_total: outbox_full, disconnected, too_large.
//   - reason of watchers_closed_total: slow for watchers that do not read, expired and future for a resourceVersion to
//     begin at that is too old or does not exist.
//   - outcome of statuses_total: accepted; gone; behind, when the agent has more than this source knows; unknown, when
//     the source has the work deleted; ignored, when it is late, repeated or of another incarnation.
//   - outcome of specs_total: taken, deletion, asked (the source, for what may be older than this process), answered
//     (with what is true here) and ignored.
//   - state on a source: active, deleting, and tombstone for works that it does not know and deletes. On an
//     agent: held, deleting, grave for works that are gone, waiting for a name that another source's work has,
//     and rejected for works whose first spec could not be decoded, or was refused for want of room.
//
// The file cloudevents/dashboard.json is a dashboard for Grafana 11 and later that shows them all.
//
// What is refused or not published is logged as well: the first of each reason and topic at once, then at most one line
// a minute with the number of those that were not.
//
// # Probes
//
// Healthy reports whether the connection and the Store work, with the cause if not. Do not use it for a liveness
// probe: a restart brings no broker back and loses the queued writes. [Source.Livez] and [Source.Readyz], and
// those of an [Agent], are made for probes; a manager of controller-runtime takes them as they are:
//
//	err = mgr.AddHealthzCheck("manifestworks", source.Livez)
//	err = mgr.AddReadyzCheck("manifestworks", source.Readyz)
//
// Before Start, Livez returns nil and Readyz an error. A manager that elects a leader starts a source or an
// agent on the leader only, and a replica that stands by must be ready as well: a rolling update ends an old
// pod when a new one is ready, and the new one leads when the old one has ended. So with leader election the
// check begins when the replica is elected:
//
//	err = mgr.AddReadyzCheck("manifestworks", func(r *http.Request) error {
//		select {
//		case <-mgr.Elected():
//			return source.Readyz(r)
//		default: // it stands by
//			return nil
//		}
//	})
//
// Replicas that share a Store all run, whoever leads. There the manager gets a type that embeds the source and
// has a method NeedLeaderElection, which returns false, and Readyz is the check as it is.
//
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
//   - Works have versions without the annotation cloudevents.open-cluster-management.io/resourceversion: the
//     source counts every write, goes above what its agents have after a restart, and metadata.generation
//     follows, since agents put the version into observedGeneration. So does a work whose name one had before
//     that is gone; over a restart it takes a [Store] to know of that. The annotation's value "0" asks for a
//     work without versions, which is sent again at every resync; any other value is ignored.
//   - The UID of an object is its own; the resource ID is only on the wire. Of a source's finalizers only
//     cluster.open-cluster-management.io/manifest-work-cleanup reaches agents.
//   - A deleted work stays at the source until its agent reports it gone, also when it was never reported on.
//   - An agent serves any number of sources. With [AgentOptions].Sources it asks each on its own topic;
//     without, it asks all on clusters/<cluster>/agentbroadcast, which those of the OCM SDK hear only if their
//     topics have it.
//   - Metadata travels in an attribute: what would exceed its 64 KiB is refused with RequestEntityTooLarge.
//
// Limits of the format, with any peer: lists are not split, so that a broker's packet limit bounds how many
// works a cluster can have; the end of an answer is not marked, so that an agent's first list always waits for
// the quiet time of [AgentOptions].InitialSyncTimeout; there are no digests, so that a lost status is found
// every 10 min; and a source that restarts without a store is told from its earlier self only by its works'
// versions and times of creation.
package work
