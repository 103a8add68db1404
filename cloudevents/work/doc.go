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
//	Update                    spec and metadata                   finalizers, labels, annotations
//	UpdateStatus, Patch of    MethodNotSupported: the status      yes, published to the work's source
//	  "status"                belongs to agents
//	Patch: JSON, merge,       yes; apply also creates             metadata and status
//	  server-side apply
//	Patch: strategic          UnsupportedMediaType, as for any custom resource
//	Delete, DeleteCollection  yes, preconditions and dryRun       MethodNotSupported
//	Get, List                 any namespace, selectors, pages     its cluster
//	Watch                     any number, selectors, resuming,    likewise
//	                          bookmarks, initial events
//
// Errors are StatusErrors with the API server's reasons. Objects get the defaults of the ManifestWork CRD and are
// held to its schema; applies merge by it, with managers, conflicts and force as on the API server. The clients of other resources, discovery and the
// REST client exist and answer MethodNotSupported.
//
// # What differs from the API server
//
//   - A namespace is a cluster's name and always exists.
//   - managedFields begin with the first apply: who wrote before it is "before-first-apply". They stay where they
//     are made: an agent's do not come to the source, nor the source's to the agent, and neither tracks what it
//     hears from the other.
//   - Manifests keep their bytes. The API server takes unknown and null members out of their metadata.
//   - Objects are Go values: a typed update adds no empty members to what was applied without them, and an
//     executor without a subject, which no typed client could send back, is refused.
//   - An unknown field in a patch has no effect, as there, but the warning of it is not sent. With fieldValidation
//     Strict it is an error.
//   - A watch delivers the store's own objects, shared with other watches and informers: they are read-only, as
//     objects from an informer are anyway. Get, List and the writes return copies.
//   - On a source, a deleted work stays, with a deletionTimestamp and the finalizer
//     cluster.open-cluster-management.io/manifest-work-cleanup, until its agent reports it gone, or
//     [Source.Forget] gives up on the cluster.
//   - On an agent, metadata that the user changes stays on the cluster. A key that the source changes afterwards
//     gets the source's value.
//   - A work that an earlier process of the agent may have applied gets that finalizer with its deletion also on
//     the agent, unless its user has written to it: a work agent that restarted must clean up and take it off.
//   - A write that would overfill the outbox fails with TooManyRequests and a delay; one that the broker would
//     not take, with RequestEntityTooLarge.
//   - A resourceVersion that is none, or that is set on Create, is a BadRequest (on Update a Conflict), where the
//     API server has an internal error. A watch from a version of the future gets the error Timeout, where the
//     API server waits in silence. A call without a namespace that needs one fails before any request.
//   - The metadata is checked by this module's apimachinery, so the words of a cause may be those of another
//     release than your API server's.
//   - The first list and the end of a watch's initial events wait, on an agent, until its sources have answered
//     ([AgentOptions].InitialSyncTimeout): a work not heard of yet must not look as if it were gone.
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
// as long as the source's process lives. Events that come late, twice or out of order do not turn anything
// back: each work has a version that orders all that is said of it, across deletion and re-creation, and an
// incarnation by which a late "gone" of an old work never removes a new one. After each (re)connection both
// sides compare what they have and send only what differs.
//
// A source keeps its works in memory. After a restart its owner creates them anew: agents adopt equal specs
// without applying them again and answer with their status at once. Works that are not created anew stay on
// their clusters until [Source.InventoryComplete] says that no more will come.
//
// # Two sources, one name
//
// Works of several sources may meet on a cluster. The first keeps the name; the other is told by the condition
// Degraded, reason NameConflict, and served when the name is free. A spec that an agent cannot decode is
// answered with Degraded, reason InvalidSpec, and the last good one stays applied.
package work
