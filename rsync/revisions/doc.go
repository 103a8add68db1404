// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package revisions keeps applications on clusters at the content that a controller wants. Each new
// content is a numbered revision, which can be compared and rolled back. The package drives an
// engine of package rsync: the controller sets targets, and queues no events.
//
//	manager, err := revisions.New(s, connectors, revisions.Options{})
//	go manager.Start(ctx)
//	…
//	content := &revisions.Content{Apps: apps, Source: document} // apps: see appcontext.Builder
//	manager.Set("shop", revisions.Target{Content: content, Cause: "image v2"})
//	err = manager.Settled(ctx, "shop")
//	…
//	content, err = manager.Content(ctx, "shop", 1)
//	manager.Set("shop", revisions.Target{Content: content, Revision: 1, Cause: "rollback to 1"})
//	…
//	manager.Set("shop", revisions.Target{}) // removes it
//
// The controller sets the targets of all applications after each start of its process. A target
// that is reached already changes nothing. Applications without a target stay unchanged.
//
// # Guarantees
//
//   - [Manager.Set] returns at once. A target that is set during an event waits for the end of the
//     event, and only the newest target is used.
//   - An event may take long, because a cluster is offline and objects there cannot become ready or
//     be removed. The event is stopped when a newer target has waited for [Options].Patience. A
//     rollout over the clusters, and an event before a removal, are stopped at once.
//   - A failed event is repeated, first after a second and later every 5 minutes. A failed or
//     aborted rollout waits for [Manager.Resume] or a newer target.
//   - After a crash the manager continues with the same event.
//   - After any failure or stop, the clusters get the wanted revision, and no objects of another
//     revision stay on them.
//
// # The next step
//
// Each revision is an AppContext: shop.1, shop.2 and so on. The first revision is instantiated, and
// the next is an update from the previous one. Returning to an earlier one is an update in the
// other direction, and removing the application is a termination.
// A [Hold] records a rollback for a controller that would make the newer content again.
//
// The next step depends only on the states of the contexts, so it is the same after a crash. A
// revision is live while its objects may be on clusters: from its first event until an update that
// replaces it is complete. An update from each live revision to the wanted one leaves no objects
// behind. For this an update applies all resources, not only the changed ones: connectors write
// only those that a cluster does not have. It may also start in more states than the engine allows
// by default. New sets these options of the engine.
//
// # Limits
//
// While a cluster is offline, the revisions that it has not removed stay live, with their data in
// the store, until it returns or is forgotten. The engine deletes the objects that an update
// removes after all clusters have applied the update. If one cluster cannot, for example because it
// must still remove the objects of a rolled back revision, the objects stay on all clusters.
// Therefore remove clusters that stay offline.
//
// One manager may run on a store at a time. Any number of managers may read, and any number of
// engines may execute the events. Replicas of a controller elect a leader, and run the manager
// while they lead.
//
// The name of an application is part of keys and of the IDs of contexts: letters, digits and
// . _ - : @ +. The source of a revision is stored as it is, so it should have no secrets that the
// store must not have.
//
// # Stored data
//
// The keys begin with [Options].Prefix:
//
//	rollout/<application>/             the revisions, and the number of the wanted one
//	revision/<application>/<number>/   the source
//	hold/<application>/                the hold after a rollback
package revisions
