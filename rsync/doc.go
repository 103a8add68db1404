// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsync applies, updates, reads and deletes the resources of applications on many clusters. An AppContext says
// which apps run on which clusters, with which resources in which order; the engine has a durable queue for each, retries
// while a cluster does not answer, and goes on after a crash where it was.
//
//	s, err := etcdstore.New(client, etcdstore.Options{})
//	engine, err := rsync.New(s, connectors, rsync.Options{})
//	go engine.Start(ctx)
//	…
//	err = engine.Create(ctx, shop)               // an *appcontext.AppContext: see its Builder
//	ref, err := engine.Instantiate(ctx, shop.ID) // queued; nothing lost from here on
//	status, err := engine.Wait(ctx, ref)
//
// connectors reach the clusters: package connector is their interface, connector/fake has clusters in memory for tests.
// Package store is where all is kept: store/etcdstore in etcd, store/memstore in memory. rsyncgrpc serves an engine over gRPC.
//
// # Guarantees
//
//   - An event that was queued is worked on, once, in the order of its queue, whatever crashes in between. Calls to clusters may be
//     repeated after a crash; changes of state are not.
//   - Batches of any size finish, on clusters of any latency: connectors report progress, so time is limited for each request, and a
//     call that is repeated leaves out what was done. After a crash of the engine it is done again, which changes nothing.
//   - One cluster's failure never stops another's work. Each app on each cluster has its own status, and the state of the context
//     follows from all. Those who wait for a cluster take no goroutine, and all together cause one probe a second.
//   - Within a cluster resources are applied in order and deleted in the reverse one; connector/kube works in parallel on neighbours
//     that do not depend on each other. Terminated means that the clusters no longer have them.
//   - Stop and Terminate act at once: they are watched for, not polled. An idle engine asks the store for nothing but its lease.
//   - A rollout never has more clusters in progress than it allows, and begins with none after too many failed, whatever crashes.
//   - Any number of engines on one store share the work, and an event costs the store the same with any number. One that has lost its
//     lease writes nothing any more, however late a write of it arrives; what it had is taken over within the time of a lease.
//   - No event deletes an object that another context holds. The last context that holds it deletes it. The same goes for a
//     Namespace or a CustomResourceDefinition while another context has objects in it, except that such a context does not delete it.
//   - A cluster that is dead for good holds up nothing: [Engine.Detach] removes it from a context. If it comes back, the objects of
//     the context are deleted there.
//   - [Engine.Healthy] fails while the store does not answer or refuses every write, and recovers by itself.
//   - The number of transactions for an app on a cluster in an event does not depend on its resources.
//
// # Events
//
// Instantiate applies a context, Terminate deletes it, Read asks for what is there. Update leads from one context, which must be
// Instantiated or have failed, to another: what is new or has changed is applied; only when all of that is done, what the new one no longer
// has is deleted. An object that moved to another app is not deleted. Rollback is an Update back. Update events are queued in
// the context they lead to, their second halves in the one they come from, and each moves the state of the context it is queued in.
// [Engine.Diff] returns what an event would change on each cluster, field by field, without a change.
//
// After an update that failed, in whichever phase, there are three ways on, and each leaves nothing behind: an Update to the same or
// another context, from either of the two; a Rollback from the one that failed; and a Terminate of both. Such an update applies
// everything, not only what differs, and replaces all contexts that failed updates have left: each gets an UpdateDelete. It finds
// up to 16 of them. A Terminate of the context that failed gives the remaining objects the manifests of the other one.
//
// An event that the state does not allow ends with the status Error and the reason InvalidState; the state stays and the next event
// is worked on. [TransitionsDefault] is the table of states; the package's other documentation has it as a list, and
// RSYNC-STATES.md as a diagram.
//
// Terminate pre-empts: events before it that have not begun are skipped. The one under way ends as soon as it would have to wait for
// a cluster, a dependency or a hook; clusters that answer finish. Stop is a latch: as Terminate, but it begins nothing more, and
// events are refused with [ErrStopped] until ClearStop.
//
// # Rollouts
//
// [WithRollout] has an Instantiate or an Update move from cluster to cluster: in groups, with a
// number of clusters in progress, a time for which each must stay ready, a deadline, a number of
// failures, and approvals. Pause, Resume and Abort control it. A failed rollout can roll back by
// itself, and a Rollback can lead one group back. ROLLOUT.md describes all of that, and compares it
// with OCM and KubeFleet.
//
// # Between events
//
// With [Options].Observe the engines follow contexts that are Instantiated. [Status].Observed and
// [Engine.Watch] report objects that are not ready or differ from their manifests, by field. With
// [ObserveHeal] the engine applies them again in a [Heal], an event that comes after all queued
// ones and leaves objects of other contexts. Drift that returns is healed later each time, five
// times in all. Then it is only reported, with [ReasonContested], until the next event. Hooks are
// not observed.
//
// # Dependencies and hooks
//
// An app waits for those it depends on until they are deployed or ready, on the same cluster where they are there, else on all of
// theirs. On deletion they wait for it. Hooks are resources that are applied and awaited before or after all others of the app on
// that cluster: crd-install, pre-install and post-install when it comes, pre-delete and post-delete when it goes. The latter are
// deleted when they are done, the former with the app; definitions of a crd-install stay. Where an app was to go and stays, because that
// was stopped, its pre-delete and post-delete hooks that were applied are deleted by the next Update from its context, or with the
// one that this leads to where they are hooks of that too.
//
// An app has waves (appcontext.Resource). A wave is applied when all resources of the wave before
// are ready, and deleted before them. An update waits only for waves in which it applies something.
// For hooks, waves are Helm's weights. After a crash of the engine, deleted hooks may run again.
//
// # Failures
//
// What a cluster refuses for now is tried again with [Backoff]; for one that does not answer there is one prober. Both go on
// until Stop or Terminate, or [Options].MaxRetries. What it refuses for good, and a hook that fails, fails the app there. The event is
// then an Error when all others have ended; [EventError] says which and why. A connector that panics, or that does not tell the state of each
// object, has refused for good.
//
// An app that waits on a cluster has a status there that says for what: Retrying, with the reason
// Unreachable, RefusedForNow or NotReady, and what the cluster, or its prober, said. It is written
// when that changes: 16 times at once, and then once a minute, so a status is at most a minute old.
//
// A value of the store that cannot be read is [ErrBroken] with its key. It holds up the context that it belongs to, and no other.
//
// # Clusters that do not come back
//
// [Engine.Detach] removes a cluster from a context. The event under way and all later ones leave it
// out. The objects that the context may have on the cluster stay recorded: [Engine.Detached] lists
// them. The engine probes the cluster at least every 10 minutes, and every minute while an event
// waits for the cleanup. When the cluster answers, the engine deletes those objects, except objects
// of other contexts. [Engine.Attach] undoes a Detach, [Engine.Forget] gives the cleanup up.
//
// # Errors and limits
//
// Methods return errors for errors.Is: [ErrNotFound], [ErrConflict], [ErrStopped], [ErrInvalidState], [ErrInvalidInput], those of
// package store, and appcontext's for a context that is not valid. What Wait returns for an event is an [*EventError], which is also
// [ErrInvalidState], [ErrStopped], [ErrPreempted], [ErrUnreachable], [ErrNotFound] or [ErrFailed], by its reason; or an
// [*UnfinishedError] with what the event waits for.
//
// The manifests of an app on a cluster may have 16 MiB (appcontext.MaxAppCluster); the store has them in records of 512 KiB. Names
// and keys have 253 bytes (appcontext.MaxName). The list of a context's apps and their clusters is one record: with etcd's defaults
// that is some ten thousand pairs. A queue keeps [Options].HistoryLimit elements that are done; Wait for an older one is ErrNotFound.
//
// METRICS.md lists the metrics of [Options].MetricsRegisterer. EMCO.md is for users of EMCO's
// rsync: the differences, and how contexts move here.
package rsync
