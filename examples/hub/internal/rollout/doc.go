// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout rolls out each application to its target, through the engine of package rsync.
//
// Each revision of an application is an AppContext: shop.1, shop.2 and so on. The first revision is
// instantiated, and the next is an update from the previous one. Returning to an earlier one is a
// rollback, and removing the application is a termination. [Manager.Set] sets the target. A target
// that is set during an event waits for the end of the event, and only the newest target is used.
// An event may take long, because a cluster is offline and objects there cannot become ready or be
// removed. The event is stopped when a newer target has waited for [Options].Patience.
//
// # The next step
//
// The next step depends only on the states of the contexts, see next, so it is the same after a
// crash. A revision is live while its objects may be on clusters: from its first event until an
// update that replaces it is complete. After any failure or stop, an update from each live revision
// to the wanted one leaves no objects behind. For this an update applies all resources, not only
// the changed ones: the connector writes only those that a cluster does not have. It may also start
// in more states than the engine allows by default, see Transitions.
//
// While a cluster is offline, the revisions that it has not removed stay live, with their data in
// the store, until it returns or is forgotten. The engine deletes the objects that an update
// removes after all clusters have applied the update. If one cluster cannot, for example because it
// must still remove the works of a rolled back revision, the objects stay on all clusters.
// Therefore remove clusters that stay offline.
//
// # Stored data
//
//	/hub/rollout/<application>/             the revisions, and the number of the wanted one
//	/hub/revision/<application>/<number>/   the source: the document and the values that its templates have read
package rollout
