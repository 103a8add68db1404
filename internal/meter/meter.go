// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package meter creates the Prometheus metrics of a part of the SDK. It sets names and constant
// labels in one place, and registers the metrics together, so a conflict registers no metric.
package meter

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "spokewire"

// Set is a collector of several metrics with constant labels. Add metrics before it is registered.
// After that, all methods of the set and of its metrics may be called from any goroutine.
type Set struct {
	subsystem  string
	labels     prometheus.Labels
	collectors []prometheus.Collector
	descs      []*prometheus.Desc
	scrape     func(chan<- prometheus.Metric)
}

// New returns an empty set for a client of package cloudevents with a kind and an ID.
func New(kind, client string) *Set {
	return NewSet("cloudevents", prometheus.Labels{"kind": kind, "client": client})
}

// NewSet returns an empty set. The names of its metrics begin with spokewire and the subsystem.
func NewSet(subsystem string, labels prometheus.Labels) *Set {
	return &Set{subsystem: subsystem, labels: labels}
}

// Counter adds a counter.
func (s *Set) Counter(name, help string) prometheus.Counter {
	return s.CounterVec(name, help).WithLabelValues()
}

// Counters adds a counter for each value of a label. All counters exist from the start, so a rate
// includes the first event.
func (s *Set) Counters(name, help, label string, values ...string) map[string]prometheus.Counter {
	vec := s.CounterVec(name, help, label)
	out := make(map[string]prometheus.Counter, len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(v)
	}
	return out
}

// CounterVec adds counters with labels.
func (s *Set) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: s.subsystem, Name: name, Help: help, ConstLabels: s.labels,
	}, labels)
	s.collectors = append(s.collectors, vec)
	return vec
}

// Gauge adds a gauge.
func (s *Set) Gauge(name, help string) prometheus.Gauge {
	return s.GaugeVec(name, help).WithLabelValues()
}

// GaugeVec adds gauges with labels.
func (s *Set) GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: s.subsystem, Name: name, Help: help, ConstLabels: s.labels,
	}, labels)
	s.collectors = append(s.collectors, vec)
	return vec
}

// Histogram adds a histogram.
func (s *Set) Histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return s.HistogramVec(name, help, nil, buckets...).WithLabelValues().(prometheus.Histogram)
}

// HistogramVec adds histograms with labels.
func (s *Set) HistogramVec(name, help string, labels []string, buckets ...float64) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: s.subsystem, Name: name, Help: help, ConstLabels: s.labels, Buckets: buckets,
	}, labels)
	s.collectors = append(s.collectors, vec)
	return vec
}

// Desc adds a metric with values from the function of OnScrape.
func (s *Set) Desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prometheus.BuildFQName(namespace, s.subsystem, name), help, labels, s.labels)
	s.descs = append(s.descs, d)
	return d
}

// OnScrape sets the function that sends the values of the metrics of Desc. It is called once for
// each scrape.
func (s *Set) OnScrape(f func(chan<- prometheus.Metric)) { s.scrape = f }

// Gauge returns a value of a gauge, for the function of OnScrape.
func Gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Total returns a value of a counter, for the function of OnScrape.
func Total(d *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// Bool returns 1 for true and 0 for false.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe implements [prometheus.Collector].
func (s *Set) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.collectors {
		c.Describe(out)
	}
	for _, d := range s.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *Set) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.collectors {
		c.Collect(out)
	}
	if s.scrape != nil {
		s.scrape(out)
	}
}

// Register registers the set of a client. If another client has the same ID, the error describes
// the solution.
func (s *Set) Register(r prometheus.Registerer) error {
	err := r.Register(s)
	kind, client := s.labels["kind"], s.labels["client"]
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return fmt.Errorf("MetricsRegisterer has metrics of %s %q already: two on one registerer need two IDs, and "+
			"create the next one after Start of the previous one has returned: %w", kind, client, err)
	}
	if err != nil {
		return fmt.Errorf("MetricsRegisterer rejects the metrics of %s %q: %w", kind, client, err)
	}
	return nil
}
