// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label result of reconciles.
const (
	resultSuccess  = "success"
	resultError    = "error"
	resultTerminal = "terminal_error"
	resultRequeue  = "requeue"
	resultAfter    = "requeue_after"
)

// metrics contains the metrics of a watcher. On nil, its methods do nothing.
type metrics struct {
	watcher    *Watcher
	registerer prometheus.Registerer

	establish, reconcile, wait prometheus.Histogram
	reconciles, events, ends   *prometheus.CounterVec
	active                     prometheus.Gauge
	collectors                 []prometheus.Collector // all of the above

	watches, watchers, depth   *prometheus.Desc
	consolidated, consolidates *prometheus.Desc
}

func (w *Watcher) measure() error {
	if w.options.MetricsRegisterer == nil {
		return nil
	}
	labels := prometheus.Labels{"name": w.options.Name}
	full := func(name string) string { return "spokewire_dynamicwatcher_" + name }
	counters := func(name, help, label string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Name: full(name), Help: help, ConstLabels: labels}
		return prometheus.NewCounterVec(opts, []string{label})
	}
	times := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: full(name), Help: help, ConstLabels: labels,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}})
	}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(full(name), help, variable, labels)
	}
	m := &metrics{
		watcher: w, registerer: w.options.MetricsRegisterer,
		establish:  times("establish_seconds", "Time from the request for a watch until all existing objects were sent."),
		reconcile:  times("reconcile_seconds", "Duration of Reconcile."),
		wait:       times("queue_seconds", "Time from the first change that queues a watcher until its reconcile starts."),
		reconciles: counters("reconciles_total", "Calls of Reconcile.", "result"),
		events:     counters("triggers_total", "Changes reported to watchers, once for each watcher.", "type"),
		ends:       counters("watch_ends_total", "Watches that ended or could not be opened.", "reason"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: full("active_workers"), Help: "Running reconciles.", ConstLabels: labels,
		}),
		watches:      desc("watches", "Watched objects by the state of their API watch.", "state"),
		watchers:     desc("watchers", "Objects that watch others."),
		consolidated: desc("consolidated_objects", "Watched objects that share an API watch on their namespace."),
		consolidates: desc("consolidated_watches", "API watches on a namespace."),
		depth:        desc("queue_depth", "Watchers that wait for a reconcile."),
	}
	m.collectors = []prometheus.Collector{m.establish, m.reconcile, m.wait, m.reconciles, m.events, m.ends, m.active}
	err := m.registerer.Register(m)
	if already := new(prometheus.AlreadyRegisteredError); errors.As(err, already) {
		return invalidOption("Name", w.options.Name, "Options.MetricsRegisterer has metrics of this name: set another name")
	}
	w.metrics = m
	return err
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(out)
	}
	for _, d := range []*prometheus.Desc{m.watches, m.watchers, m.depth, m.consolidated, m.consolidates} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(out)
	}
	states := map[State]int{StateEstablishing: 0, StateActive: 0, StateBackoff: 0, StatePendingKind: 0, StateNoAccess: 0}
	w := m.watcher
	w.mu.Lock()
	shared, groups, depth := 0, 0, 0
	for _, o := range w.registry.objects {
		states[o.state]++
	}
	for _, g := range w.groups {
		if shared += g.members; g.members > 0 {
			groups++
		}
	}
	watchers, queue := len(w.registry.watchers), w.queue
	w.mu.Unlock()
	if queue != nil {
		depth = queue.Len()
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(m.consolidated, shared)
	gauge(m.consolidates, groups)
	gauge(m.watchers, watchers)
	gauge(m.depth, depth)
	for state, n := range states {
		gauge(m.watches, n, string(state))
	}
}

func (m *metrics) unregister() {
	if m != nil {
		m.registerer.Unregister(m)
	}
}

func (m *metrics) established(took time.Duration) {
	if m != nil {
		m.establish.Observe(took.Seconds())
	}
}

func (m *metrics) ended(v verdict) {
	if m != nil {
		m.ends.WithLabelValues(v.String()).Inc()
	}
}

func (m *metrics) notified(t TriggerType) {
	if m != nil {
		m.events.WithLabelValues(string(t)).Inc()
	}
}

// reconciling records the beginning of a reconcile, and returns a function that records its end.
// waited is -1 without triggers.
func (m *metrics) reconciling(waited time.Duration) func(result string) {
	if m == nil {
		return func(string) {}
	}
	m.active.Inc()
	if waited >= 0 {
		m.wait.Observe(waited.Seconds())
	}
	began := m.watcher.options.Clock.Now()
	return func(result string) {
		m.active.Dec()
		m.reconcile.Observe(m.watcher.options.Clock.Since(began).Seconds())
		m.reconciles.WithLabelValues(result).Inc()
	}
}
