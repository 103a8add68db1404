// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsync applies, updates, reads and deletes the resources of applications on many clusters.
// An AppContext is a set of apps, with the clusters and the ordered resources of each app. The
// engine has a durable queue of events for each AppContext. It retries while a cluster does not
// answer, and continues after a crash.
//
//	s, err := etcdstore.New(client, etcdstore.Options{})
//	engine, err := rsync.New(s, connectors, rsync.Options{})
//	go engine.Start(ctx)
//	…
//	err = engine.Create(ctx, shop)               // an *appcontext.AppContext: see its Builder
//	ref, err := engine.Instantiate(ctx, shop.ID) // queued: the event is durable
//	status, err := engine.Wait(ctx, ref)
//
// Connectors reach clusters. Package connector has their interface: connector/kube, connector/git
// and connector/manifestwork implement it, and connector/fake has clusters in memory for tests.
// Package store has the interface of stores: store/etcdstore uses etcd, store/memstore memory.
// Package rsyncgrpc serves an engine over gRPC. Package revisions queues events for a controller
// that only has the wanted content of its applications. In these documents a context is an AppContext, and
// ctx is a context.Context.
//
// # Guarantees
//
//   - The engine executes each queued event once, in the order of its queue, despite crashes. After
//     a crash it may repeat calls to clusters, and the repeated calls change nothing.
//   - The time limit of a call starts again with each resource that the connector reports. So a
//     call may have any number of resources. A repeated call omits completed resources.
//   - A failing cluster stops no other cluster. Each app on each cluster has its own status.
//     Waiting apps use no goroutine. All apps that wait for a cluster share one probe a second.
//   - Resources of an app are applied in order on a cluster, and deleted in reverse order.
//     connector/kube applies consecutive resources in parallel if they are independent of each
//     other. A Terminated context has no objects on clusters, except those that other contexts
//     hold.
//   - Stop and Terminate act at once, because engines watch for them. An idle engine sends only the
//     renewals of its lease to the store.
//   - A rollout never has more clusters in progress than it allows, and begins no cluster after too
//     many have failed, despite crashes.
//   - Any number of engines share the work of one store. Their number does not change the cost of
//     an event for the store. The store rejects the writes of an engine that has lost its lease,
//     also those that were sent earlier and arrive late. Within the duration of a lease another
//     engine continues the work.
//   - No event deletes an object that another context holds, or a Namespace or
//     CustomResourceDefinition with objects of another context. The last context that holds an
//     object deletes it: see [Engine.Inventory].
//   - A dead cluster delays nothing after [Engine.Detach] has removed it from the context.
//   - [Engine.Healthy] fails while the store does not answer or rejects every write.
//   - The number of transactions of an event does not depend on the number of resources.
//
// # Events
//
// Instantiate applies a context, Terminate deletes it, and Read reads the states of its objects.
// Update leads from one context to another. It first applies new and changed resources. When all of
// them are applied, it deletes the resources that the new context does not have. An object that
// moved to another app is not deleted. Rollback is an Update in the other direction. An Update is
// in the queue of the context that it leads to. Its second half, the UpdateDelete, is in the queue
// of the context that it leads from. [Engine.Diff] returns the changes that an event would make, by
// cluster and field.
//
// After a failed Update there are three ways out: an Update from either context to any other
// context, a Rollback, or a Terminate of both contexts. Each of them leaves no object behind. An
// Update after a failed one applies all resources. After several failed Updates in a row, more
// contexts may still have objects. The next Update queues an UpdateDelete in each of them, in 16
// contexts at most. A Terminate of only the new context deletes the objects that only it holds.
// Objects that the earlier context also holds get its manifests again.
//
// An event that the state does not allow ends with the status Error and the reason InvalidState.
// The state does not change, and the next event begins. [TransitionsDefault] is the table of
// states. RSYNC-STATES.md in the root of the repository has it as a diagram.
//
// Terminate pre-empts: earlier events that have not begun are skipped. The event in progress ends
// when it would otherwise wait for a cluster, a dependency or a hook. Stop skips all queued events,
// and ends the event in progress in the same way. Until ClearStop the queue rejects events with
// [ErrStopped].
//
// # Rollouts
//
// With the option [WithRollout] an Instantiate or an Update moves from cluster to cluster: see
// [Rollout]. Approve, Pause, Resume and Abort control it. ROLLOUT.md has the rules, and compares
// them with OCM and KubeFleet. HOOKS.md describes dependencies, waves and hooks.
//
// # Between events
//
// With [Options].Observe the engines follow contexts that are Instantiated. [Status].Observed and
// [Engine.Watch] report objects that are not ready or differ from their manifests, by field. With
// [ObserveHeal] the engine applies such objects again in a [Heal]. A Heal runs after all queued
// events, and changes no object of another context. If the drift returns, the engine heals it up to
// five times, with growing delays. Then it only reports the drift, with [ReasonContested], until
// the next event. Hooks are not observed.
//
// # Failures
//
// After a [Backoff] the engine repeats a call that a cluster refused for now. It probes clusters
// that do not answer. Both end with Stop, Terminate or [Options].MaxRetries. If a cluster refuses
// for good, or a hook fails, the app fails on that cluster. The event ends as an Error when all
// other apps have ended. A connector that panics, or does not return the state of each object,
// counts as a refusal for good.
//
// An app that waits on a cluster has the phase Retrying there, with a reason and a message. The
// engine writes the first 16 changes of this status at once, and later ones once a minute. The
// engine first writes the reason NotReady after a wait of about 2 s, and then again at growing
// intervals.
//
// A value in the store that cannot be decoded blocks only its own context: see [ErrBroken].
//
// # Errors and limits
//
// Methods return the errors of this package and of package store, and for an invalid context those
// of package appcontext. For an event that failed, Wait returns an [*EventError], which wraps the
// error of its reason. If ctx ends first, it returns an [*UnfinishedError].
//
// The manifests of an app on a cluster are limited to 16 MiB, names and idempotency keys to 253
// bytes. The list of a context's apps and clusters is one record: with etcd's defaults about 10,000
// pairs of an app and a cluster fit. A queue keeps the last [Options].HistoryLimit finished events.
// METRICS.md lists the metrics. EMCO.md is for users of EMCO's rsync.
package rsync
