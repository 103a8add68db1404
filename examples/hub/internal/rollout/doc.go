// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout brings each application to what it is to be, in order, through the engine of package rsync.
//
// Each revision of an application is an AppContext, shop.1, shop.2 and so on. The first one is instantiated, the next is an update from the
// one before, an earlier one again a rollback, and the end is a termination. [Manager.Set] says what an application is to be; what comes
// while an event is under way waits until that is done, and only the newest of it counts. Where an event takes long, because a cluster is away and
// what must become ready or gone there cannot be waited for, it is stopped as soon as something newer has waited for [Options].Patience.
//
// # What is done next
//
// It follows from the states of the contexts alone, see next, so it is the same after a crash. A revision is live while objects of it may be
// on clusters: from its first event until another revision was updated from it. Whatever has failed or was stopped half way, an update from each live
// revision to the one that is wanted leaves nothing behind. For that an update applies everything, not only what differs: the connector
// writes only what a cluster does not have. And it may begin in more states than the engine's own table has, see Transitions.
//
// While a cluster is away, the revisions that it has not let go of stay live, each with what it has in the store, until it is back or forgotten.
// And the engine deletes what an update removes once all is applied: where that cannot be on one cluster, such as after a rollback to a revision whose works the
// cluster has still to let go of, it stays on all of them until then. So take clusters away that stay away.
//
// # What is stored
//
//	/hub/rollout/<application>/             the revisions, and which one is wanted
//	/hub/revision/<application>/<number>/   what the revision was made from: the document and the values that its templates have read
package rollout
