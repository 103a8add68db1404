// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/meter"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// metrics are the metrics of an engine. Each method does nothing on nil.
type metrics struct {
	registerer prometheus.Registerer
	set        *meter.Set

	queued, events, txns *prometheus.CounterVec
	calls                *prometheus.CounterVec
	resumed, lost        prometheus.Counter
	unreachable          prometheus.Gauge
	seconds              *prometheus.HistogramVec
}

func newMetrics(e *Engine) (*metrics, error) {
	if e.options.MetricsRegisterer == nil {
		return nil, nil //nolint:nilnil // no metrics are wanted
	}
	set := meter.NewSet("rsync", prometheus.Labels{"name": e.options.Name})
	m := &metrics{
		registerer: e.options.MetricsRegisterer, set: set,
		queued:      set.CounterVec("queued_total", "Events that were queued through this engine.", "event"),
		events:      set.CounterVec("events_total", "Events that ended.", "event", "status"),
		txns:        set.CounterVec("transactions_total", "Transactions of the store.", "result"),
		calls:       set.CounterVec("calls_total", "Calls to clusters.", "verb", "result"),
		resumed:     set.Counter("resumed_total", "Events that were resumed after their engine had ended."),
		lost:        set.Counter("sessions_lost_total", "Leases that were lost or not granted."),
		unreachable: set.Gauge("unreachable_clusters", "Clusters that do not answer."),
		seconds: set.HistogramVec("event_seconds", "Time from queueing an event until it ended.", []string{"event"},
			.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
	}
	active := set.Desc("active_contexts", "App contexts with unfinished events, of all engines on the store.")
	owned := set.Desc("running_contexts", "App contexts that this engine owns.")
	set.OnScrape(func(out chan<- prometheus.Metric) {
		out <- meter.Gauge(active, e.count(func(s *session) int { return len(s.active) }))
		out <- meter.Gauge(owned, e.count(func(s *session) int { return len(s.runs) }))
	})
	err := m.registerer.Register(set)
	switch {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return nil, invalidOption("Name", "%q: must differ between engines on one MetricsRegisterer", e.options.Name)
	case err != nil:
		return nil, invalidOption("MetricsRegisterer", "%w", err)
	}
	return m, nil
}

// count returns a number of the current session, or 0 without a session.
func (e *Engine) count(of func(*session) int) float64 {
	s := e.current()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(of(s))
}

func (m *metrics) unregister() {
	if m != nil {
		m.registerer.Unregister(m.set)
	}
}

func (m *metrics) queuedEvent(event EventType) {
	if m != nil {
		m.queued.WithLabelValues(string(event)).Inc()
	}
}

func (m *metrics) event(e *Element) {
	if m != nil {
		m.events.WithLabelValues(string(e.Event), string(e.Status)).Inc()
		m.seconds.WithLabelValues(string(e.Event)).Observe(e.Finished.Sub(e.Queued).Seconds())
	}
}

func (m *metrics) transaction(result string) {
	if m != nil {
		m.txns.WithLabelValues(result).Inc()
	}
}

func (m *metrics) called(v verb, err error) {
	if m == nil {
		return
	}
	result := "done"
	switch class := connector.ClassOf(err); {
	case errors.Is(class, connector.ErrUnreachable):
		result = "unreachable"
	case errors.Is(class, connector.ErrTerminal):
		result = "refused"
	case err != nil:
		result = "retryable"
	}
	m.calls.WithLabelValues(string(v), result).Inc()
}

func (m *metrics) down(n float64) {
	if m != nil {
		m.unreachable.Add(n)
	}
}

func (m *metrics) resumedEvent() {
	if m != nil {
		m.resumed.Inc()
	}
}

func (m *metrics) sessionLost() {
	if m != nil {
		m.lost.Inc()
	}
}
