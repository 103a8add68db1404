// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// metrics are the metrics of an engine. Each method does nothing on nil.
type metrics struct {
	registerer prometheus.Registerer
	all        []prometheus.Collector

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
	m := &metrics{registerer: e.options.MetricsRegisterer}
	labels := prometheus.Labels{"name": e.options.Name}
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "spokewire_rsync_" + name, Help: help, ConstLabels: labels}
	}
	m.queued = prometheus.NewCounterVec(options("queued_total", "Events that were queued through this engine."),
		[]string{"event"})
	m.events = prometheus.NewCounterVec(options("events_total", "Events that ended."), []string{"event", "status"})
	m.txns = prometheus.NewCounterVec(options("transactions_total", "Transactions of the store."), []string{"result"})
	m.calls = prometheus.NewCounterVec(options("calls_total", "Calls to clusters."), []string{"verb", "result"})
	m.resumed = prometheus.NewCounter(options("resumed_total",
		"Events that were resumed after their engine had ended."))
	m.lost = prometheus.NewCounter(options("sessions_lost_total", "Leases that were lost or not granted."))
	m.unreachable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spokewire_rsync_unreachable_clusters", Help: "Clusters that do not answer.", ConstLabels: labels,
	})
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "spokewire_rsync_event_seconds", Help: "Time from queueing an event until it ended.", ConstLabels: labels,
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
	}, []string{"event"})
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spokewire_rsync_active_contexts",
		Help: "App contexts with unfinished events, of all engines on the store.", ConstLabels: labels,
	}, func() float64 { return e.count(func(s *session) int { return len(s.active) }) })
	owned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spokewire_rsync_running_contexts", Help: "App contexts that this engine owns.", ConstLabels: labels,
	}, func() float64 { return e.count(func(s *session) int { return len(s.runs) }) })
	m.all = []prometheus.Collector{
		m.queued, m.events, m.txns, m.calls, m.resumed, m.lost, m.unreachable, m.seconds, active, owned,
	}
	for i, c := range m.all {
		if err := m.registerer.Register(c); err != nil {
			for _, done := range m.all[:i] {
				m.registerer.Unregister(done)
			}
			if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
				return nil, fmt.Errorf("%w: Options.Name: %q: must differ between engines on one MetricsRegisterer",
					ErrInvalidInput, e.options.Name)
			}
			return nil, fmt.Errorf("%w: Options.MetricsRegisterer: %w", ErrInvalidInput, err)
		}
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
	if m == nil {
		return
	}
	for _, c := range m.all {
		m.registerer.Unregister(c)
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
