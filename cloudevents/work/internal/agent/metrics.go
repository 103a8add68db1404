// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/internal/meter"
)

// Results of a spec: values of the label outcome.
const (
	specTaken    = "taken"
	specDeletion = "deletion"
	specAsked    = "asked"
	specAnswered = "answered"
	specIgnored  = "ignored"
)

// measure registers the metrics of the agent, if the options have a registerer. A scrape may follow
// at once, so it is called after the Store is loaded.
func (a *Agent) measure() error {
	r := a.options.MetricsRegisterer
	if r == nil {
		return nil
	}
	m := peer.NewMetrics(r, a.options.Clock, peer.KindAgent, a.options.AgentID)
	m.Outcomes = m.Set.Counters("specs_total", "Received specs.", "outcome",
		specTaken, specDeletion, specAsked, specAnswered, specIgnored)
	sources := m.Set.Desc("sources", "Known sources.")
	synced := m.Set.Desc("synced", "1 after the initial sync.")
	a.metrics = m
	return m.Register(func(out chan<- prometheus.Metric) { a.collect(m, sources, synced, out) })
}

func specOutcome(act protocol.AgentAction) string {
	switch act {
	case protocol.Create, protocol.CreateDeleting, protocol.Take, protocol.KeepNext:
		return specTaken
	case protocol.MarkDeleting, protocol.Remove, protocol.TakeDelete:
		return specDeletion
	case protocol.Ask:
		return specAsked
	case protocol.RepeatGone, protocol.PublishStatus, protocol.Answer:
		return specAnswered
	}
	return specIgnored
}

func (a *Agent) collect(m *peer.Metrics, sources, synced *prometheus.Desc, out chan<- prometheus.Metric) {
	works := map[string]int{"held": 0, "deleting": 0, "tombstone": 0, "waiting": 0, "rejected": 0}
	degraded := 0
	a.cache.Lock()
	for _, s := range a.records.sources {
		for _, w := range s.works {
			switch {
			case w.State == protocol.Tombstone:
				works["tombstone"]++
			case w.State == protocol.Deleting:
				works["deleting"]++
			case w.Object != nil:
				works["held"]++
			case w.Next != nil: // its name is taken
				works["waiting"]++
			default: // its first spec could not be decoded
				works["rejected"]++
			}
			if w.problemLocked() != nil {
				degraded++
			}
		}
	}
	known, held := len(a.records.sources), a.cache.Held()
	now := peer.Sizes{Cache: a.cache.Stats(), Works: works, Degraded: degraded, Unsaved: a.records.journal.UnsavedLocked()}
	a.cache.Unlock()
	m.Collect(out, a.options.Outbox, now)
	out <- meter.Gauge(sources, float64(known))
	out <- meter.Gauge(synced, meter.Bool(!held))
}
