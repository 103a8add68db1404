// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// # Metrics
//
// With MetricsRegisterer in the options, a source or an agent has the metrics below, from its constructor until Start
// has returned. All begin with spokewire_cloudevents_ and have two labels more: kind, which is source or agent, and
// client, its ID. No label has the name of a cluster or a work. What is a size is read when Prometheus asks, which takes
// a lock once; what happens is counted without any allocation.
//
//	metric                                type       labels     what
//	events_sent_total                     counter    type       events that the broker has acknowledged
//	events_sent_bytes_total               counter    type       their data, without attributes and topics
//	events_received_total                 counter    type       events that arrived and could be decoded
//	events_received_bytes_total           counter    type       their data
//	events_refused_total                  counter    reason     messages that arrived and could not be used
//	events_dropped_total                  counter    reason     items of the outbox that were given up
//	statuses_total                        counter    outcome    on a source: what became of statuses
//	specs_total                           counter    outcome    on an agent: what became of specs
//	publish_seconds                       histogram  -          from a write until the broker has its event
//	publish_refusals_total                counter    -          publications that the broker answered with an error
//	writes_refused_total                  counter    reason     writes that failed for want of room or a connection
//	outbox_depth                          gauge      lane       what the broker has not acknowledged
//	outbox_inflight                       gauge      -          of that, what was handed to the transport
//	outbox_oldest_seconds                 gauge      -          for how long the oldest news has been waiting
//	outbox_limit                          gauge      -          how many works may wait
//	packet_limit_bytes                    gauge      -          what the broker takes in a message; 0 for no limit
//	connected                             gauge      -          1 while connected and subscribed
//	connection_changed_timestamp_seconds  gauge      -          when that changed last
//	connections_total                     counter    -          connections made; all but the first are reconnects
//	connect_failures_total                counter    permanent  attempts that failed; true: somebody has to act
//	resyncs_total                         counter    -          comparisons begun
//	resync_seconds                        histogram  -          until a peer has answered one in full, for each peer
//	resync_listed_works_total             counter    direction  works named in lists
//	resync_answers_total                  counter    direction  specs and statuses that a list has called for
//	works                                 gauge      state      works in the store
//	works_degraded                        gauge      -          those with a condition Degraded of this process
//	works_unconfirmed                     gauge      -          on a source: not shown by an agent in this version
//	clusters                              gauge      -          on a source: those that it knows
//	sources                               gauge      -          on an agent: those that it has heard of
//	inventory_complete                    gauge      -          on a source: 1 after InventoryComplete
//	synced                                gauge      -          on an agent: 1 after the initial sync
//	store_write_seconds                   histogram  -          until the Store has made a batch of changes durable
//	store_write_failures_total            counter    -          batches that the Store did not take
//	store_unsaved                         gauge      -          records that have changed since the Store took them
//	replica_writing                       gauge      -          on a source: 1 where this replica writes, or is the only one
//	replica_events_waiting                gauge      -          on a source: events that wait for the replica that writes
//	watchers                              gauge      -          open watches
//	watchers_closed_total                 counter    reason     watches that were ended with an error
//
// The labels' values:
//
//   - type is the end of the event's type, as spec.created and statusresync.requested.
//   - lane is control for requests, live for news of works, bulk for answers. Works that the broker refuses until the
//     next connection are in live, although they take no room in the outbox. A source's answers to one cluster count as
//     one in bulk until the turn of their events comes.
//   - direction is sent or received, permanent true or false.
//   - reason of events_refused_total: not_an_event; topic, type, attribute, mismatch and data are the codec's; wrong_source,
//     wrong_cluster and version_out_of_range are what a peer must not say; too_many_unknown is for works beyond the
//     10,000 of a cluster that its source deletes without knowing them; unexpected; and overrun, for messages of QoS 0
//     that came too fast.
//   - reason of events_dropped_total: too_large, not_encodable, refused_by_broker, and connection_lost for requests and
//     answers, which the next connection makes anew.
//   - reason of writes_refused_total: outbox_full, disconnected, too_large.
//   - reason of watchers_closed_total: slow for watchers that do not read, expired and future for a resourceVersion to
//     begin at that is too old or does not exist.
//   - outcome of statuses_total: accepted; gone; behind, when the agent has more than this source knows; unknown, when
//     the source has the work deleted; ignored, when it is late, repeated or of another incarnation.
//   - outcome of specs_total: taken, deletion, asked (the source, for what may be older than this process), answered
//     (with what is true here) and ignored.
//   - state on a source: active, deleting, and tombstone for works that it does not know and deletes. On an agent: held,
//     deleting, grave for works that are gone, waiting for a name that another source's work has, and rejected for works
//     whose first spec could not be decoded.
//
// The file cloudevents/dashboard.json is a dashboard for Grafana 11 and later that shows them all.
//
// What is refused or not published is logged as well: the first of each reason and topic at once, then at most one line
// a minute with the number of those that were not.
package work
