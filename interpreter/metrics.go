// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix is the prefix of all metrics.
const prefix = "spokewire_interpreter_server_"

// handlerMetrics are the metrics of all handlers with one registerer. Nil means no metrics.
type handlerMetrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

func newHandlerMetrics(registerer prometheus.Registerer) *handlerMetrics {
	if registerer == nil {
		return nil
	}
	return &handlerMetrics{
		requests: registered(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "requests_total",
			Help: "Requests by handler, operation (none if invalid or rejected) and code of the answer.",
		}, []string{"handler", "operation", "code"})),
		seconds: registered(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_seconds", Help: "Duration of requests, in seconds.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"handler"})),
		inFlight: registered(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "requests_in_flight", Help: "Requests that are being read or answered.",
		}, []string{"handler"})),
	}
}

// registered registers a collector, or returns the one that another handler has registered.
func registered[C prometheus.Collector](registerer prometheus.Registerer, c C) C {
	var already prometheus.AlreadyRegisteredError
	if err := registerer.Register(c); errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}

// begin records the start of a request. The returned function records its end.
func (m *handlerMetrics) begin(handler string) func(operation Operation, code int) {
	if m == nil {
		return func(Operation, int) {}
	}
	began := time.Now()
	inFlight := m.inFlight.WithLabelValues(handler)
	inFlight.Inc()
	return func(operation Operation, code int) {
		inFlight.Dec()
		m.requests.WithLabelValues(handler, string(cmp.Or(operation, "none")), strconv.Itoa(code)).Inc()
		m.seconds.WithLabelValues(handler).Observe(time.Since(began).Seconds())
	}
}

// certificateMetrics are the metrics of the server's certificate. Nil means no metrics.
type certificateMetrics struct {
	reloads *prometheus.CounterVec
	expiry  prometheus.Gauge
}

func newCertificateMetrics(registerer prometheus.Registerer) *certificateMetrics {
	if registerer == nil {
		return nil
	}
	return &certificateMetrics{
		reloads: registered(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "certificate_reloads_total", Help: "Certificates read from changed files, by result.",
		}, []string{"result"})),
		expiry: registered(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "certificate_expiry_timestamp_seconds", Help: "Expiry of the served certificate, in Unix seconds.",
		})),
	}
}

func (m *certificateMetrics) loaded(until time.Time) {
	if m != nil {
		m.reloads.WithLabelValues("success").Inc()
		m.expiry.Set(float64(until.Unix()))
	}
}

func (m *certificateMetrics) failed() {
	if m != nil {
		m.reloads.WithLabelValues("failure").Inc()
	}
}
