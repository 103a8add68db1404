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
//
// On a managed cluster:
//
//	agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"rollouts"}})
//	go agent.Start(ctx)
//	factory := workinformers.NewSharedInformerFactory(agent.Clientset(), 0)
//
// The clientsets work before Start: what is written waits in the outbox.
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
// Errors are StatusErrors with the API server's reasons, codes, details and causes. Objects get the defaults of the
// ManifestWork CRD and are held to its schema; applies merge by it, with managers, conflicts and force as on the API
// server. The pages of a list are all of the version of the first, and a list of exactly a version, or a watch from
// it, is of that version; when more than 1,024 writes came since, the error is Expired, and that of a page has the
// token that gets the rest of what there is now. The clients of other resources, discovery and the REST client
// exist and answer MethodNotSupported.
//
// # What differs from the API server
//
// The tests run one suite of calls on a kube-apiserver, on a source and on an agent. What follows is all in which
// they come apart.
//
//   - A namespace is a cluster's name and always exists. An agent has its own cluster's works, whatever the
//     namespace.
//   - The status is not for a source to write, and works are not for an agent to create or delete: these verbs are
//     MethodNotSupported, and an apply of a work that the agent does not have is NotFound.
//   - An agent's change of the spec or of the ownerReferences, which the API server would take, is Invalid.
//   - On an agent, metadata that the user changes stays on the cluster. A key that the source changes afterwards
//     gets the source's value. Of a source's metadata, labels, annotations and ownerReferences travel. UID and
//     generateName are each side's own, and so are finalizers: one that a source's controller sets does not hold up
//     the agent, nor does an agent's hold up other controllers of the source.
//   - On a source, a deleted work stays, with a deletionTimestamp and the finalizer
//     cluster.open-cluster-management.io/manifest-work-cleanup, until its agent reports it gone, or
//     [Source.Forget] gives up on the cluster. So what watches see of the last finalizer of another controller is
//     one more change.
//   - Every policy of propagation ends as on a cluster whose garbage collector is done: nothing on a source depends
//     on a work. So the finalizers foregroundDeletion and orphan are taken off when the deletion begins, and
//     are not put on. What happens to what the work made on its cluster, its spec's deleteOption says.
//     ownerReferences are kept and have no effect.
//   - A work that an earlier process of the agent may have applied gets the clean-up finalizer with its deletion
//     also on the agent, unless its user has written to it: a work agent that restarted must clean up and take it
//     off.
//   - managedFields begin with the first apply: who wrote before it is "before-first-apply", and what would only
//     change them is no change. They stay where they are made: an agent's do not come to the source, nor the
//     source's to the agent, and neither tracks what it hears from the other.
//   - Manifests keep their bytes. The API server takes unknown and null members out of their metadata.
//   - Objects are Go values: null, missing and empty are one. So an empty list or object where there was none is no
//     change and no new generation, a JSON patch finds a spec, a workload and a resourceStatus where a patch before it
//     took them away, an apply that gives up the last item of a list is no error, and a typed update adds no empty
//     members to what was applied without them. What no typed client could read or send back is refused: an executor
//     without a subject, and a lastTransitionTime that is a list.
//   - An unknown field in a patch has no effect, as there, but the warning of it is not sent. With fieldValidation
//     Strict it is an error.
//   - What was wrong with an object's metadata before a change, because its source checks less than an API server,
//     is not held against the change. Elsewhere validation has nothing to overlook: what is stored was valid when
//     it was written, by this one version of the schema.
//   - The objects that a watch delivers share the bytes of their manifests with the store: who wants to edit those
//     in place copies them first. A transform may drop them, and anything else of the object.
//   - A watch from a version of the future gets the error Timeout, where the API server waits in silence. A read
//     of such a version is the same Timeout as there, but comes at once.
//   - How large an object may be, the broker says: what it would not take is refused with RequestEntityTooLarge,
//     where the API server takes 3 MiB of a request and about half of that of an object. A write that would
//     overfill the outbox fails with TooManyRequests and a delay.
//   - The metadata is checked by this module's apimachinery, so the words of a cause may be those of another
//     release than your API server's.
//   - On an agent, the first list, the end of a watch's initial events, and a Get or a change of a work that is not
//     there wait until its sources have answered ([AgentOptions].InitialSyncTimeout): a work not heard of yet must not
//     look as if it were gone. With a context that ends first, they return its error.
//
// # Coming from the typed clientset
//
// Replace the constructor, and start what it made:
//
//	before  clientset, err := versioned.NewForConfig(restConfig)
//	hub     source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller"})
//	        go source.Start(ctx) // or mgr.Add(source): it is a controller-runtime Runnable
//	        clientset := source.Clientset()
//	agent   agent, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "cluster1"})
//	        go agent.Start(ctx)
//	        clientset := agent.Clientset()
//
// Informer factories, listers, workqueues and controller-runtime's source.Informer take the clientset as it is. What
// to look at: a controller that created its works once and relied on etcd to keep them creates them again after a
// restart, and calls [Source.InventoryComplete] when its informers have synced; one that lists works of other
// controllers finds its own only, as each source has its own; RBAC on ManifestWorks becomes the broker's access
// control on topics.
//
// # Guarantees
//
// Once a write has returned, it is delivered however often the broker, the agent or the connection goes away,
// as long as the source's process lives, or has a [Store]. Events that come late, twice or out of order do not
// turn anything back: each work has a version that orders all that is said of it, across deletion and
// re-creation, and an incarnation by which a late "gone" of an old work never removes a new one. After each
// (re)connection both sides compare what they have and send only what differs.
//
// Without a Store a source keeps its works in memory. After a restart its owner creates them anew: agents adopt
// equal specs without applying them again and answer with their status at once. Works that are not created anew
// stay on their clusters until [Source.InventoryComplete] says that no more will come. Until then a
// source that has none for a cluster does not end its answer to that agent: one without a Store which restarts as well must
// not take works for gone that are about to come. Its first list waits, at most for [AgentOptions].InitialSyncTimeout. So a
// source that has no works to wait for calls it at once, and one that has many creates them before Start.
//
// A source that restarts without a Store counts generations from 1 again. The agent's object is still the same, with its
// UID, so its generation keeps the promise of an API server's: it never goes down, and goes up when the spec changes or the
// deletion begins. A controller on the cluster may filter by it. Until the source has caught up it is higher than the
// source's own. In what the controller reports the agent puts that right: an observedGeneration, of the work or of a
// manifest, is at the source the generation of the work there if it is about the spec there, and lower if it is not; 0
// is of before the restart.
//
// # Stores and replicas
//
// With a [Store] a source or an agent continues where its last process ended, as an API server does: works, statuses,
// resourceVersions, deletions under way and what is known of the peers. Package boltstore keeps that in a file:
//
//	store, err := boltstore.Open("works.db", boltstore.Options{})
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "my-controller", Store: store})
//
// Whoever reads sees a write at once; but a write returns, an event is published and what arrives is acknowledged only
// when the store has it. Writers that wait share its transactions. While the store fails, writes fail with InternalError,
// although what they wrote may show and is stored as soon as possible, Healthy says why, and the connection is given
// up so that what arrives is sent again.
//
// Several processes can be one source, with [SourceOptions].SharedGroup and a [SharedStore]: see there.
//
// # Two sources, one name
//
// Works of several sources may meet on a cluster. The first keeps the name; the other is told by the condition
// Degraded, reason NameConflict, and served when the name is free. A spec that an agent cannot decode is
// answered with Degraded, reason InvalidSpec, and the last good one stays applied.
// A work that is not sent shows Degraded on the source, beside what its agent reports: reason TooLarge where it is over
// the broker's limit, NotPublished where the broker refuses it, as its access rules may, and NotEncodable otherwise. The
// message has the cause. What the broker refuses is logged, takes no room in the outbox, and is tried again on the next
// connection. The condition goes when the work is published, or changed.
//
// # Traces
//
// With [SourceOptions].TraceParent the trace of a write goes with the work to its agent, and with that of [AgentOptions]
// the trace of a status to its source. A controller continues it where it reconciles:
//
//	carrier := propagation.MapCarrier{"traceparent": agent.TraceParent(work.Name)}
//	ctx = propagation.TraceContext{}.Extract(ctx, carrier)
package work
