// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/meter"
)

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
	s.cache.Lock()
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
		events = len(s.replica.inbox)
	}
	now := peer.Sizes{Cache: s.cache.Stats(), Works: works, Degraded: degraded, Unsaved: s.journal.UnsavedLocked()}
	s.cache.Unlock()
	m.Collect(out, s.options.Outbox, now)
	out <- meter.Gauge(own.writing, meter.Bool(writing))
	out <- meter.Gauge(own.events, float64(events))
	out <- meter.Gauge(own.unconfirmed, float64(unconfirmed))
	out <- meter.Gauge(own.clusters, float64(clusters))
	out <- meter.Gauge(own.complete, meter.Bool(complete))
}
