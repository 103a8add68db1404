// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicwatcher tells a controller when any of a set of objects changes. The set is known only at run time,
// differs from one reconciled object to the next, and may have objects of any kind: the Secrets and ConfigMaps that a
// policy's template names, say. The controller is reconciled when one of them is created, changed or deleted.
//
//	watcher, err := dynamicwatcher.New(&dynamicwatcher.Options{Reconciler: policies})
//	if err != nil {
//		return err
//	}
//	go watcher.Start(ctx)
//	…
//	policy := dynamicwatcher.ObjectIdentifier{Group: "policy.example.com", Version: "v1", Kind: "Policy", Namespace: "ns", Name: "p"}
//	err = watcher.AddOrUpdateWatcher(policy,
//		dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "Secret", Namespace: "ns", Name: "password"},
//		dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"})
//
// From then on policies.Reconcile is called with the policy's identifier whenever one of the two changes. The next
// AddOrUpdateWatcher replaces the set, and [DynamicWatcher].RemoveWatcher ends it. In these docs a watcher is the object
// that depends on others, the watched are those others.
//
// # What it costs
//
// There is one API watch for each distinct watched object, however many watchers share it, limited to that object by a
// field selector, so that the access it needs can be granted by resourceNames. The server sends metadata only; nothing
// is kept of an object but its UID and resource version. A watch takes about 16 KiB and two goroutines. About 90 watches
// share a connection. The API server sends no more than it would to an informer on the one object.
//
// With [Options].Consolidate, many watched objects of one kind in one namespace share a watch on the namespace, of metadata
// too: then each takes less than 1 KiB and no goroutine. That watch takes over from those on single objects when there are 32,
// and the namespace has at most 50 objects for each of them; it gives back when there are fewer than half of that, or the
// namespace has more than twice as many. Nothing is lost or told twice by that. It needs access to list and watch the
// namespace; a user who may not do that keeps single watches, and the namespace is tried again after a minute at first and
// each half hour in the end. When access is lost, when the server fails for 3 s or takes more than 30 s to tell what is there,
// and when the kind goes, there are single watches again. A list of one object tells how large a namespace is, and from then
// on the watch itself.
//
// # Guarantees
//
//   - A change is never lost. After a connection ended, or an API server was restarted, the watch goes on from the
//     resource version seen last; watchers are told when the object is not what it was, and only then
//     ([Options].Reconnect). What was not there and is not there may have come and gone meanwhile: that is told to
//     watchers that were reconciled in that time, who may have seen it.
//   - A watcher is reconciled once when it begins to watch an object that exists ([Options].DisableInitialReconcile), also
//     when other watchers have watched it for long. What it read before it added the watch may be older.
//   - No method of [DynamicWatcher] but Start, WaitForSync and those that look up a kind or query waits for the API server.
//   - A request that is slow or hangs holds up no other object, and those that share its watch for 30 s. What the server
//     does not answer, or leaves half told, for two minutes is asked for again. One server's failures have one backoff,
//     with jitter.
//   - Reconcile behaves as in controller-runtime: errors are tried again with the rate limiter's delays, results may
//     requeue, [reconcile.TerminalError] ends it, and one watcher is never reconciled twice at once.
//
// # Kinds that come and go
//
// A kind is looked up when an object of it is first watched. One that the server does not know is an
// [ErrNoVersionedResource], or with [Options].MissingKind Wait the watch begins when its CRD is established. When a CRD is
// deleted the watchers of objects that existed are told once, and the watch goes on if it comes back. The CRD is watched by
// name. Where the kind has not been seen before, that name is a guess, which adds an s or the like as kubectl does; a kind with
// another plural, or of an aggregated API server, is looked for every 20 to 30 s.
//
// A kind that comes may have another scope than was thought. Where it has no namespaces, the namespace of an identifier does
// not count; where it has, an object that is watched without one is not watched any more: its state is NoAccess with an
// [*IdentifierError], and its watchers are told as when access is lost, so that they can name a namespace.
//
// # Access that comes and goes
//
// A watch needs the verbs list and watch, which resourceNames may limit to the object. Refusals that pass cost nothing but
// time. When the server has refused for some seconds, the watchers are told once, and again when access is back; see
// [AccessLost].
//
// # Queries
//
// With [Options].EnableCache objects are watched as a whole and kept, and a watcher can read what it depends on through
// the [Querier] of a query batch: what it reads is what it watches from then on.
//
//	err := watcher.QueryBatch(ctx, policy, func(q dynamicwatcher.Querier) error {
//		secret, err := q.Get(policy, secrets, "ns", "password")
//		…
//	})
//
// A batch that ends with an error or a panic changes nothing.
//
// # Metrics
//
// With [Options].MetricsRegisterer there are, each with the label name, and the prefix spokewire_dynamicwatcher_:
//
//	watches{state}              gauge      watched objects by the state of their API watch; from Start on their sum is GetWatchCount
//	consolidated_objects        gauge      those of them that share an API watch
//	consolidated_watches        gauge      the API watches that they share
//	watchers                    gauge      objects that watch others
//	queue_depth                 gauge      watchers that wait for a reconcile
//	active_workers              gauge      reconciles under way
//	establish_seconds           histogram  from the request for a watch until what exists was told
//	queue_seconds               histogram  from the first change to the beginning of its reconcile
//	reconcile_seconds           histogram  time that Reconcile took
//	reconciles_total{result}    counter    success, error, terminal_error, requeue, requeue_after
//	triggers_total{type}        counter    changes that watchers were told of, by [TriggerType]
//	watch_ends_total{reason}    counter    ended, connection, expired, error, refused, not_found, no_kind, unwatchable
//
// # Coming from kubernetes-dependency-watches
//
// [NewForConfig] stands where client.New does, and types, methods and errors have the same names. [Options] has the clients
// of client.NewWithClients, package source has the source of NewControllerRuntimeSource, and the object cache is
// [Options].EnableCache. What is different:
//
//   - Constructors return a [*Watcher], which implements [DynamicWatcher].
//   - AddWatcher and AddOrUpdateWatcher return when the watches are asked for, not when they are established, and work
//     before Start too. What the server refuses is in Status, and an error of WaitForSync, not of these calls.
//   - AddOrUpdateWatcher without any watched clears the set instead of refusing.
//   - A watcher that joins an object which is watched already is reconciled for it. After a reconnect, watchers of objects
//     that did not change are not reconciled.
//   - GetWatchCount returns an int. ErrWatchStopping is never returned: an object can be watched anew at once.
//   - Reconcile runs in Options.MaxConcurrentReconciles goroutines, and a panic in it is an error.
//   - A failed query batch can be aborted.
package dynamicwatcher
