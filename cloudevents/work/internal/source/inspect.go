// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/meter"
)

// ComparesAtOnce is the number of lists in a row that a source compares.
const ComparesAtOnce = comparesAtOnce

// State is the state of a source that its clientset does not show. Tests check it.
type State struct {
	// Works counts the works, tombstones included. Tombstones counts the tombstones at their
	// clusters, and Expiring those in the order of their expiry.
	Works, Tombstones, Expiring int
	// Orphans counts the works of clusters that the source does not have.
	Orphans int
	// Lists counts incomplete lists, RefusedStatuses the statuses that must be requested again.
	Lists, RefusedStatuses int
	Rivals                 int   // other processes with the ID
	Bytes                  int64 // that clusters are charged for
	Records                map[string]Record
}

// Record is the state of a work.
type Record struct {
	UID      string
	Version  int64
	Deleting bool
}

// State returns the state of the source.
func (s *Source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{
		Works: len(s.works), Expiring: s.tombstones.order.Len(), Bytes: s.budget.Used(), Records: map[string]Record{},
	}
	if s.presence != nil {
		state.Rivals = s.presence.CountLocked()
	}
	for _, c := range s.clusters {
		state.Tombstones += len(c.tombstones)
		state.Lists += len(c.lists.open)
		state.RefusedStatuses += len(c.statuses.refused)
	}
	for _, w := range s.works {
		if s.clusters[w.cluster.name] != w.cluster {
			state.Orphans++
		}
		state.Records[w.id] = Record{string(w.uid), w.version, w.phase.IsDeleting()}
	}
	return state
}

// KeptRecords returns the records that the store must have now, by key: values for encoding/json.
func (s *Source) KeptRecords() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]any{journal.KeyMeta: (*sourceMeta)(s.records).Content()}
	for _, c := range s.clusters {
		if c.Content() != nil {
			out[journal.PrefixCluster+c.name] = c.Content()
		}
		for id, r := range c.reported.byID {
			if r.past {
				out[journal.PastKey(c.name, id)] = pastWork{c, id}.Content()
			}
		}
	}
	for _, f := range s.forgotten.byName {
		out[journal.PrefixCluster+f.name] = f.Content()
	}
	for _, w := range s.works {
		out[journal.WorkKey(w.cluster.name, w.id)] = w.Content()
	}
	return out
}

// SetMaxInbox sets the limit of queued events that a replica keeps for the leader, in bytes.
func (s *Source) SetMaxInbox(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.inbox.most = n
}

// Cluster is the Cluster of package work.
type Cluster struct {
	Name               string
	LastHeard          time.Time
	Works, Unconfirmed int
}

// Clusters implements the method of work.Source.
func (s *Source) Clusters() []Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Cluster, 0, len(s.clusters))
	for name, c := range s.clusters {
		out = append(out, Cluster{
			Name: name, LastHeard: c.lastReport, Works: s.cache.Count(name), Unconfirmed: c.delivery.count,
		})
	}
	slices.SortFunc(out, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Outcomes of a status: the values of the label outcome.
const (
	statusAccepted = "accepted"
	statusGone     = "gone"
	statusBehind   = "behind"
	statusUnknown  = "unknown"
	statusIgnored  = "ignored"
)

// sourceSizes are the metrics that only a source has.
type sourceSizes struct{ unconfirmed, clusters, complete, writing, events *prometheus.Desc }

// measure creates the metrics of the source and registers them if the options have a registerer.
// The metrics may be read at once, so it is called after the Store was loaded: a scrape does not
// wait for the Store.
func (s *Source) measure() error {
	r := s.options.MetricsRegisterer
	if r == nil {
		return nil
	}
	m := peer.NewMetrics(r, s.options.Clock, peer.KindSource, s.options.SourceID)
	m.Outcomes = m.Set.Counters("statuses_total", "Received statuses.", "outcome",
		statusAccepted, statusGone, statusBehind, statusUnknown, statusIgnored)
	m.Divergences = m.Set.Counter("divergences_total",
		"Resyncs that began because digests differed.")
	own := &sourceSizes{
		unconfirmed: m.Set.Desc("works_unconfirmed", "Works that their agents have not confirmed in the current version."),
		clusters:    m.Set.Desc("clusters", "Known clusters."),
		complete: m.Set.Desc("inventory_complete",
			"1 after InventoryComplete."),
		writing: m.Set.Desc("replica_writing", "1 if this replica is the leader, or the only one."),
		events:  m.Set.Desc("replica_events_waiting", "Events that wait for the leader."),
	}
	s.metrics = m
	return m.Register(func(out chan<- prometheus.Metric) { s.collect(m, own, out) })
}

// outcome returns the label value of a status for its actions.
func outcome(act protocol.SourceActions) string {
	switch {
	case act.Finish:
		return statusGone
	case act.Accept:
		return statusAccepted
	case act.Raise:
		return statusBehind
	case act.DeleteUnknown:
		return statusUnknown
	}
	return statusIgnored
}

// collect locks the source's mutex once.
func (s *Source) collect(m *peer.Metrics, own *sourceSizes, out chan<- prometheus.Metric) {
	works := map[string]int{"active": 0, "deleting": 0, "tombstone": 0}
	degraded, unconfirmed := 0, 0
	s.mu.Lock()
	for _, w := range s.works {
		switch {
		case w.Object == nil:
			works["tombstone"]++
		case w.phase.IsDeleting():
			works["deleting"]++
		default:
			works["active"]++
		}
		if w.problem.unsent() || w.problem.ofStatus() {
			degraded++
		}
		if !w.confirmed {
			unconfirmed++
		}
	}
	clusters, complete, writing, events := len(s.clusters), s.complete, s.writingLocked(), 0
	if s.replica != nil {
		events = len(s.replica.inbox.events)
	}
	now := peer.Sizes{Cache: s.cache.Stats(), Works: works, Degraded: degraded, Unsaved: s.journal.UnsavedLocked()}
	s.mu.Unlock()
	m.Collect(out, s.options.Outbox, now)
	out <- meter.Gauge(own.writing, meter.Bool(writing))
	out <- meter.Gauge(own.events, float64(events))
	out <- meter.Gauge(own.unconfirmed, float64(unconfirmed))
	out <- meter.Gauge(own.clusters, float64(clusters))
	out <- meter.Gauge(own.complete, meter.Bool(complete))
}
