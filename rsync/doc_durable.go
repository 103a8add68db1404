// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

// What is stored, and what each transaction does. All keys end with a slash.
//
//	/context/<id>/                             head: ID, meta, apps, dependencies, clusters, generation; never changes
//	/context/<id>/state/                       record: State, Owner, Writer, Current (element in progress), Transitions, Version,
//	                                           Generation, Holds (its objects), Previous (the contexts that its last update
//	                                           replaces), Whole (whether that applies everything), Fresh (whether it had no
//	                                           objects when the current element began), Partial (whether rollouts may not have
//	                                           begun with all clusters since)
//	/context/<id>/updates/                     the contexts to which updates from this one led, until it holds nothing more
//	/context/<id>/queue/                       tail: the number of the next element
//	/context/<id>/queue/<number>/              element, its number in 16 hexadecimal digits
//	/context/<id>/queue/detached/              clusters that are detached from the context, or attached since and not handled yet
//	/context/<id>/idempotency/<key>/           the number of the element that was queued with the key
//	/context/<id>/rollout/<number>/            the rollout of an element, with its approvals, whether it is paused or aborted
//	/context/<id>/status/<app>/<p>+<c>/        status of an app on a cluster in the last event about it, and whether it is absent there
//	/context/<id>/observed/<app>/<p>+<c>/      observation of an app on a cluster since the last change of State
//	/activecontext/<id>/                       there is something to do; put again with each event that is queued
//	/rsync/spec/<id>/<generation>/<app>/<p>+<c>/   the resources of an app on a cluster; never change; what exceeds 512 KiB continues
//	                                           in records below that key, <part>/ in 4 hexadecimal digits
//	/rsync/inventory/<p>+<c>/<id>/<generation>/<app>/   which objects the app has on the cluster, as hashes of 8 bytes; never changes;
//	                                           continues as the resources do
//	/rsync/detached/<p>+<c>/<remnant>/         of which context the remnant is, and since when
//	/rsync/unfinished/<id>/<generation>/       a Create or a Delete of several transactions is under way: when it began
//	/rsync/index/<id>/                         ID and State, put with each record, for List
//	/rsync/stop/<id>/                          the stop latch
//	/rsync/engine/<session>/                   an engine that is alive; goes with its lease
//
// Who writes what: users the tail, elements that are Pending, detached clusters, active records,
// latches, new contexts and remnants; the owner of a context all else. The tail is apart from the
// record so that queueing does not disturb the owner's writes, nor they it.
//
// Each write of an engine has two conditions, which are its fence: its own key in /rsync/engine/
// has not gone since the session began (its create revision is the session's epoch), and the record
// has the revision that the engine last saw. An engine whose lease is over fails the first, however
// late its write arrives; one whose context was claimed by another fails the second.
//
//	transaction  more conditions                                   writes
//	create       no head                                           manifests, inventory, head, tail, record, index
//	create in    no head; after the first, the note of before      note, manifests and inventory, in parts; then the rest, and no
//	parts                                                          note
//	sweep        note unchanged                                    no inventory; then no manifests of it, no note
//	enqueue      tail unchanged, no latch, key not used            element, tail, active record, idempotency key, rollout
//	change of    element and rollout unchanged                     rollout, active record
//	a rollout
//	detach       record and detached clusters unchanged; the       detached clusters, the remnant as a create does (also in parts),
//	             statuses of absent apps unchanged                 active record during an event, latch of an older remnant
//	attach       the same; the remnant's head unchanged            detached clusters, latch of the remnant
//	begin        no latch, detached clusters unchanged; for        element InProgress, record (with Owner: claims the context;
//	             Update record and updates of from unchanged       with Holds); for Update updates of from
//	refuse       (tail unchanged)                                  element Error, record, (no active record, no Owner)
//	skip         for Stop the latch unchanged, (tail unchanged)    elements Skip, record, (no active record, no Owner)
//	claim        the owner before has no key                       record with the new Owner
//	probe        - the session's key alone, no record              the session's key again, after a refused write
//	status       -                                                 statuses, of as many apps on clusters as have ended
//	admit        rollout unchanged                                 statuses of the clusters that begin
//	finish       for a rollout its value unchanged; (tail          element, record, rollout, (no active record, no Owner)
//	             unchanged)
//	finish of a  tail and latch of from, and of each context that  the same, and in each of those: element UpdateDelete, tail,
//	first phase  failed before, unchanged                          active record
//	finish of a  tail and latch of the context that the way back   the same, and there: element Update or Terminate, tail, active
//	rollout      is queued in unchanged                            record
//	finish of a  -                                                 no remnant, in parts as a delete
//	remnant
//	observe      record, detached clusters and observation         observation
//	             unchanged
//	heal         the same; tail unchanged, no latch                the same; element Heal, tail, active record
//	drain        tail unchanged                                    no active record, no Owner
//	hand over    -                                                 active record again, no Owner
//	latch        head unchanged                                    latch put or deleted
//	delete       record and tail unchanged, no active record       everything of the context
//	delete in    the same; then the note of before                 note, and nothing but inventory and manifests; then those and no
//	parts                                                          note, as a sweep does
//
// What is in parentheses goes with the transaction that sees no pending element; where there is
// one, and the context has another home, the hand over goes with it. So an event on a context with
// n apps on clusters takes enqueue, begin, finish, and between 1 and 2n statuses: one when the
// cluster does not answer, once in an event, and one at the end, where those that end together
// share a transaction. That number does not depend on resources or retries.
//
// Which context holds which object follows from three values. The inventory of a cluster lists the
// objects of each context that may ever have any there, and Holds in its record whether it has
// them now. With Partial, the status of an app on a cluster shows whether the app is absent there
// because no rollout has begun with the cluster. Holds is true from the begin of an Instantiate or an Update to the begin of a Terminate
// or an UpdateDelete, so it is written in the transaction that changes the state. An event reads
// the inventory of a cluster once, and the records of contexts that have objects in common with its
// own, after its begin. An event that deletes leaves what another record holds; one that applies
// waits while another context, which does not hold, has such an event under way there. Of two
// events one has begun first, and is seen by the other.
//
// The home of a context observes it while State is Instantiated and Current is 0. It watches the
// index for that. An observation that was read before an event began is not written, because the
// record has changed. It counts while the record has the same number of Transitions, so no event
// deletes it. A Heal applies the objects of the observations with its number; they do not change
// while it is in progress.
//
// A remnant is what a context may have on a cluster that was detached from it: a context of its
// own, <id>~<random>, with a copy of the manifests and a Terminate that is in progress from the
// start. So all of the above is true for it. It waits until the event of its context that was in
// progress at the detach has ended on the cluster; events that begin later leave the cluster out,
// because begin has a condition on the detached clusters.
//
// Which engine tries is decided before anything is read. Each session has a score for each context,
// a hash of both names, and the live session with the highest one is the context's home. Each
// engine watches /rsync/engine/ and /activecontext/, and reads a context only where it is the home
// or the owner. So an event costs the store the same reads and writes with any number of engines. A
// home leaves a context to another live owner, until an event of it or its queue ends; then the
// owner deletes the active record or hands over, and puts it again, which the home sees. An engine
// that joins becomes the home of its share, and reads one key of each active context among it. The
// home of all others is as before.
//
// Two engines that see different sets of sessions may both try, and the conditions above decide; or
// none may. That ends when both have seen the same: an engine looks at the active contexts again
// for each session that it sees end, and a session looks when it first sees itself. No other change
// makes it the home of a context. A dead engine stays the home of its contexts until its lease
// ends, one that is stopped in order until it has revoked its lease.
//
// After a crash the lease ends, the session's key goes, and the home of a context by the remaining
// sessions claims it if its owner has no key. If Current is set, that element is resumed, without
// looking at the state from which it began: its tasks are planned again, which gives the same, and
// those with a final status of that element are done. Otherwise the next pending element begins.
// Either way an element begins once and ends once, each with one change of state, because each of
// these transactions needs the record that the one before has written.
//
// A transaction whose answer is lost may have been done. The engine then forgets the context and
// reads it again: what was done is seen there. It keeps the context until it has read that it is
// another's, because the transaction may be done later still. Users have idempotency keys.
//
// # Running etcd
//
// By default etcd keeps every old value of a key, because it compacts nothing. Each event writes
// new values, so an etcd without auto-compaction reaches its quota (2 GiB by default). It then
// rejects every write, and [Engine.Healthy] returns the error. Run each member with
//
//	etcd --auto-compaction-mode=periodic --auto-compaction-retention=1h --quota-backend-bytes=8589934592
//
// The quota must have room for the current values and for all writes within the retention. An event
// writes each status that changes, of at most 500 KiB, and a few small values. [Engine.Watch] can
// resume within the retention. After a compaction the engines repeat the reads of their own
// watches. etcd reuses compacted space, so it needs no defragmentation below its quota. An etcd
// that has reached its quota needs a compaction, a defragmentation and `alarm disarm`, with
// etcdctl. The engines then continue without a restart.
