// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

// Stored keys, and the transactions that write them. All keys end with a slash.
//
//	/context/<id>/                             head: ID, meta, apps, dependencies, clusters, generation; never changes
//	/context/<id>/state/                       record: State, Owner, Writer, Current (element in progress),
//	                                           Transitions, Version, Generation, Holds (its objects), Previous (the
//	                                           contexts that its last update replaces), Whole (whether that update
//	                                           applies everything), Fresh (whether the context had no objects when the
//	                                           current element began), Partial (whether, since the context had no
//	                                           objects, rollouts may not have begun with all clusters)
//	/context/<id>/updates/                     the contexts to which updates from this one led, until it holds nothing
//	                                           more
//	/context/<id>/queue/                       tail: the number of the next element
//	/context/<id>/queue/<number>/              element, its number in 16 hexadecimal digits
//	/context/<id>/queue/detached/              clusters that are detached from the context, or attached again and not
//	                                           handled yet
//	/context/<id>/idempotency/<key>/           the number of the element that was queued with the key
//	/context/<id>/rollout/<number>/            the rollout of an element, with its approvals, whether it is paused or
//	                                           aborted
//	/context/<id>/status/<app>/<p>+<c>/        status of an app on a cluster in the last event about it, and whether
//	                                           it is absent there
//	/context/<id>/observed/<app>/<p>+<c>/      observation of an app on a cluster since the last change of State
//	/activecontext/<id>/                       the context has pending work; put again with each event that is queued
//	/rsync/spec/<id>/<generation>/<app>/<p>+<c>/
//	                                           the resources of an app on a cluster; never change; above 512 KiB they
//	                                           continue in records below that key, <part>/ in 4 hexadecimal digits
//	/rsync/inventory/<p>+<c>/<id>/<generation>/<app>/
//	                                           the objects of the app on the cluster, as hashes of 8 bytes; never
//	                                           changes; continues as the resources do
//	/rsync/detached/<p>+<c>/<remnant>/         the context of the remnant, and the time of the detach
//	/rsync/unfinished/<id>/<generation>/       a Create or a Delete of several transactions is in progress: its start
//	                                           time
//	/rsync/index/<id>/                         ID and State, put with each record, for List
//	/rsync/stop/<id>/                          the stop latch
//	/rsync/engine/<session>/                   a live engine; deleted with its lease
//
// Users write the tail, Pending elements, detached clusters, active records, latches, new contexts
// and remnants. The owner of a context writes its other keys. The tail has a key of its own, so
// queueing and the owner's writes do not conflict.
//
// Each write of an engine has two conditions, which are its fence. First, the engine's own key in
// /rsync/engine/ still has the create revision that it had when the session began: this revision is
// the session's epoch. Second, the record has the revision that the engine read last. After the end
// of the lease a write fails the first condition, however late it arrives. After another engine has
// claimed the context, a write fails the second.
//
//	transaction  more conditions                                  writes
//	create       no head                                          manifests, inventory, head, tail, record, index
//	create in    no head; after the first part, note exists       note, manifests and inventory, in parts; then the
//	parts                                                         rest, and deletes the note
//	sweep        note unchanged                                   deletes the inventory; then the manifests and the
//	                                                              note
//	enqueue      tail unchanged, no latch, key not used           element, tail, active record, idempotency key,
//	                                                              rollout
//	change of a  element and rollout unchanged                    rollout, active record
//	rollout
//	detach       record and detached clusters unchanged; the      detached clusters, the remnant as a create does
//	             statuses of absent apps unchanged                (also in parts), active record during an event,
//	                                                              latch of an older remnant
//	attach       the same; the remnant's head unchanged           detached clusters, latch of the remnant
//	begin        no latch, detached clusters unchanged; for       element InProgress, record (with Owner: claims the
//	             Update record and updates of from unchanged      context; with Holds); for Update updates of from
//	refuse       (tail unchanged)                                 element Error, record, (deletes active record,
//	                                                              clears Owner)
//	skip         for Stop the latch unchanged, (tail unchanged)   elements Skip, record, (deletes active record,
//	                                                              clears Owner)
//	claim        the previous owner has no key                    record with the new Owner
//	probe        - (only the session's key, not the record)       the session's key again, after a refused write
//	status       -                                                all statuses that have changed
//	admit        rollout unchanged                                statuses of the clusters that begin
//	finish       for a rollout its value unchanged; (tail         element, record, rollout, (deletes active record,
//	             unchanged)                                       clears Owner)
//	finish of a  tail and latch of from, and of each context      the same, and in each of those: element
//	first phase  that failed before, unchanged                    UpdateDelete, tail, active record
//	finish of a  tail and latch of the context in which the       the same, and there: element Update or Terminate,
//	rollout      rollback is queued unchanged                     tail, active record
//	finish of a  -                                                deletes the remnant, in parts as a delete
//	remnant
//	observe      record, detached clusters and observation        observation
//	             unchanged
//	heal         the same; tail unchanged, no latch               the same; element Heal, tail, active record
//	drain        tail unchanged                                   deletes active record, clears Owner
//	hand over    -                                                active record again, clears Owner
//	latch        head unchanged                                   latch put or deleted
//	delete       record and tail unchanged, no active record      deletes all keys of the context
//	delete in    the same; then the note exists                   note, and deletes all but inventory and manifests;
//	parts                                                         then deletes those and the note, as a sweep does
//
// The parts in parentheses belong to the transaction that finds no pending element. If there is a
// pending element and the context has another home, that transaction includes the hand over
// instead. So an event on a context takes enqueue, begin, finish, and statuses: one for the end of
// each app on a cluster, and one for each change of the reason why it waits. Statuses that change
// together share a transaction.
//
// Three values determine which context holds an object. The inventory of a cluster lists the
// objects of each context that may ever have objects there. Holds in the context's record is true
// while the context has them. With Partial, the status of an app on a cluster shows whether the app
// is absent there because no rollout has begun with the cluster.
//
// Holds is true from the begin of an Instantiate or an Update to the begin of a Terminate or an
// UpdateDelete, so the transaction that changes the state writes it. After its begin an event reads
// the inventory of a cluster once, and the records of contexts that have objects in common with its
// own. An event that deletes leaves objects that another record holds. An event that applies waits
// while a context that does not hold has a deleting event in progress there. Of two events, one has
// begun first and is visible to the other.
//
// The home of a context observes it while State is Instantiated and Current is 0. It watches the
// index for that. An observation counts while the record has the same number of Transitions, so no
// event deletes it. A Heal applies the objects of the observations with its number, which do not
// change while it is in progress.
//
// A remnant has the objects that a context may have on a cluster that was detached from it. It is a
// context of its own, <id>~<random>, with a copy of the manifests and a Terminate that is in
// progress from the start. So all of the above is true for it. It waits until the event of its
// context that was in progress at the detach has ended on the cluster. Later events omit the
// cluster, because begin has a condition on the detached clusters.
//
// Each session has a score for each context, a hash of both names. The live session with the
// highest score is the context's home. Each engine watches /rsync/engine/ and /activecontext/, and
// reads a context only if it is the home or the owner. So an event costs the store the same with
// any number of engines.
//
// A home leaves a context to another live owner until an event of the context or its queue ends.
// Then the owner deletes the active record, or hands over: it puts the active record again, which
// the home sees. An engine that joins becomes the home of its share of the contexts, and reads one
// key of each active context in its share. All other contexts keep their home.
//
// Engines that see different sets of sessions may both try a context, and the conditions above
// decide, or neither. Both cases end when they have seen the same set. An engine looks at the
// active contexts again for each session that it sees end, and when it first sees its own. No other
// change makes it the home of a context. It stays the home until its lease ends or is revoked.
//
// After a crash the lease ends and the session's key is deleted. The home of a context by the
// remaining sessions then claims the context if its owner has no key. If Current is set, the engine
// resumes that element without looking at the state from which it began. It plans the tasks again,
// with the same result, and tasks with a final status of that element are done. Otherwise the next
// pending element begins. Either way an element begins once and ends once, each with one change of
// state: each of these transactions needs the record that the previous one has written.
//
// A transaction without an answer may have succeeded, or succeed later. The engine then reads the
// context again, and keeps it until another engine owns it. Users have idempotency keys.
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
