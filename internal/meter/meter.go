// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package meter makes the Prometheus metrics of one client, so that names and constant labels are put together in
// one place, and registers them all at once or not at all.
package meter

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	namespace = "spokewire"
	subsystem = "cloudevents"
)

// Set is a collector of several metrics. They have the constant labels kind and client. Metrics are added before
// Register; afterwards all methods of it and of them may be called from any goroutine.
type Set struct {
	kind, client string
	collectors   []prometheus.Collector
	descs        []*prometheus.Desc
	scrape       func(chan<- prometheus.Metric)
}

var _ prometheus.Collector = &Set{}

// New returns an empty set for a client: what it is and its ID.
func New(kind, client string) *Set { return &Set{kind: kind, client: client} }

func (s *Set) labels() prometheus.Labels {
	return prometheus.Labels{"kind": s.kind, "client": s.client}
}

// Counter adds a counter.
func (s *Set) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: s.labels(),
	})
	s.collectors = append(s.collectors, c)
	return c
}

// Counters adds a counter for each value of a label. All are there from the start, so a rate that begins with the
// first event does not miss it.
func (s *Set) Counters(name, help, label string, values ...string) map[string]prometheus.Counter {
	vec := s.vec(name, help, label)
	out := make(map[string]prometheus.Counter, len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(v)
	}
	return out
}

func (s *Set) vec(name, help, label string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: s.labels(),
	}, []string{label})
	s.collectors = append(s.collectors, vec)
	return vec
}

// Histogram adds a histogram.
func (s *Set) Histogram(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: s.labels(), Buckets: buckets,
	})
	s.collectors = append(s.collectors, h)
	return h
}

// Desc adds a metric whose value OnScrape's function gives.
func (s *Set) Desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, s.labels())
	s.descs = append(s.descs, d)
	return d
}

// OnScrape sets what gives the values of the metrics that Desc made. It is called once for each scrape.
func (s *Set) OnScrape(f func(chan<- prometheus.Metric)) { s.scrape = f }

// Gauge is a value for OnScrape's function to send.
func Gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Total is the value of a counter for OnScrape's function to send.
func Total(d *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// Bool is 1 or 0.
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

// Register adds the set to a registerer. The error tells what to do where another client has the same ID.
func (s *Set) Register(r prometheus.Registerer) error {
	err := r.Register(s)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return fmt.Errorf("MetricsRegisterer has metrics of %s %q already: two on one registerer need two IDs, and "+
			"one may follow another when Start of that has returned: %w", s.kind, s.client, err)
	}
	if err != nil {
		return fmt.Errorf("MetricsRegisterer does not take the metrics of %s %q: %w", s.kind, s.client, err)
	}
	return nil
}
