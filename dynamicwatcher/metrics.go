// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/meter"
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
	set        *meter.Set

	establish, reconcile, wait prometheus.Histogram
	reconciles, events, ends   *prometheus.CounterVec
	active                     prometheus.Gauge
}

func (w *Watcher) measure() error {
	if w.options.MetricsRegisterer == nil {
		return nil
	}
	set := meter.NewSet("dynamicwatcher", prometheus.Labels{"name": w.options.Name})
	times := func(name, help string) prometheus.Histogram {
		return set.Histogram(name, help, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	}
	m := &metrics{
		watcher: w, registerer: w.options.MetricsRegisterer, set: set,
		establish:  times("establish_seconds", "Time from the request for a watch until all existing objects were sent."),
		reconcile:  times("reconcile_seconds", "Duration of Reconcile."),
		wait:       times("queue_seconds", "Time from the first change that queues a watcher until its reconcile starts."),
		reconciles: set.CounterVec("reconciles_total", "Calls of Reconcile.", "result"),
		events:     set.CounterVec("triggers_total", "Changes reported to watchers, once for each watcher.", "type"),
		ends:       set.CounterVec("watch_ends_total", "Watches that ended or could not be opened.", "reason"),
		active:     set.Gauge("active_workers", "Running reconciles."),
	}
	w.measureState(set)
	err := m.registerer.Register(set)
	if already := new(prometheus.AlreadyRegisteredError); errors.As(err, already) {
		return invalidOption("Name", w.options.Name, "Options.MetricsRegisterer has metrics of this name: set another name")
	}
	w.metrics = m
	return err
}

// measureState adds the metrics of the state at each scrape.
func (w *Watcher) measureState(set *meter.Set) {
	watches := set.Desc("watches", "Watched objects by the state of their API watch.", "state")
	watchers := set.Desc("watchers", "Objects that watch others.")
	consolidated := set.Desc("consolidated_objects", "Watched objects that share an API watch on their namespace.")
	consolidates := set.Desc("consolidated_watches", "API watches on a namespace.")
	depth := set.Desc("queue_depth", "Watchers that wait for a reconcile.")
	set.OnScrape(func(out chan<- prometheus.Metric) {
		states := map[State]int{StateEstablishing: 0, StateActive: 0, StateBackoff: 0, StatePendingKind: 0, StateNoAccess: 0}
		w.mu.Lock()
		shared, groups, queued := 0, 0, 0
		for _, o := range w.registry.objects {
			states[o.state]++
		}
		for _, g := range w.groups {
			if shared += g.members; g.members > 0 {
				groups++
			}
		}
		all, queue := len(w.registry.watchers), w.queue
		w.mu.Unlock()
		if queue != nil {
			queued = queue.Len()
		}
		out <- meter.Gauge(consolidated, float64(shared))
		out <- meter.Gauge(consolidates, float64(groups))
		out <- meter.Gauge(watchers, float64(all))
		out <- meter.Gauge(depth, float64(queued))
		for state, n := range states {
			out <- meter.Gauge(watches, float64(n), string(state))
		}
	})
}

func (m *metrics) unregister() {
	if m != nil {
		m.registerer.Unregister(m.set)
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
