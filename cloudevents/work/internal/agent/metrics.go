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

// agentSizes are the metrics that only an agent has.
type agentSizes struct{ sources, synced *prometheus.Desc }

// measure makes the metrics of the agent and registers them, if the options have a registerer. A
// scrape may follow at once, so all data must exist already: a scrape does not wait for a Store to
// load.
func (a *Agent) measure() error {
	r := a.options.MetricsRegisterer
	if r == nil {
		return nil
	}
	m := peer.NewMetrics(r, a.options.Clock, peer.KindAgent, a.options.AgentID)
	m.Outcomes = m.Set.Counters("specs_total", "Received specs.", "outcome",
		specTaken, specDeletion, specAsked, specAnswered, specIgnored)
	own := &agentSizes{
		sources: m.Set.Desc("sources", "Known sources."),
		synced:  m.Set.Desc("synced", "1 after the initial sync."),
	}
	a.metrics = m
	return m.Register(func(out chan<- prometheus.Metric) { a.collect(m, own, out) })
}

// specOutcome returns the value of the label outcome for an action.
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

// collect sends the sizes. It locks the agent's mutex once.
func (a *Agent) collect(m *peer.Metrics, own *agentSizes, out chan<- prometheus.Metric) {
	works := map[string]int{"held": 0, "deleting": 0, "tombstone": 0, "waiting": 0, "rejected": 0}
	degraded := 0
	a.cache.Lock()
	for _, s := range a.sources {
		for _, w := range s.works {
			switch {
			case w.state == protocol.Tombstone:
				works["tombstone"]++
			case w.state == protocol.Deleting:
				works["deleting"]++
			case w.Object != nil:
				works["held"]++
			case w.next != nil: // its name is taken
				works["waiting"]++
			default: // its first spec could not be decoded
				works["rejected"]++
			}
			if w.problem != nil {
				degraded++
			}
		}
	}
	sources, synced := len(a.sources), !a.cache.Held()
	now := peer.Sizes{Cache: a.cache.Stats(), Works: works, Degraded: degraded, Unsaved: a.journal.UnsavedLocked()}
	a.cache.Unlock()
	m.Collect(out, a.options.Outbox, now)
	out <- meter.Gauge(own.sources, float64(sources))
	out <- meter.Gauge(own.synced, meter.Bool(synced))
}
