// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync"
)

// metrics are the metrics of the services. Each method does nothing on nil.
type metrics struct {
	registerer prometheus.Registerer
	all        []prometheus.Collector

	calls        *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	inFlight     *prometheus.GaugeVec
	slow         prometheus.Counter
	certificates prometheus.Counter
	budget       prometheus.Counter
}

func newMetrics(o *Options) (*metrics, error) {
	if o.MetricsRegisterer == nil {
		return nil, nil //nolint:nilnil // no metrics are wanted
	}
	labels := prometheus.Labels{"name": o.Name}
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "spokewire_rsync_grpc_" + name, Help: help, ConstLabels: labels}
	}
	m := &metrics{
		registerer: o.MetricsRegisterer,
		calls:      prometheus.NewCounterVec(options("calls_total", "Calls that ended."), []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spokewire_rsync_grpc_call_seconds", Help: "Duration of calls.", ConstLabels: labels,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spokewire_rsync_grpc_calls_in_flight", Help: "Calls that have not ended.", ConstLabels: labels,
		}, []string{"method"}),
		slow: prometheus.NewCounter(options("slow_watches_total",
			"Watches ended because their client read too slowly.")),
		certificates: prometheus.NewCounter(options("certificate_errors_total",
			"Files of certificates and keys that could not be used.")),
		budget: prometheus.NewCounter(options("budget_closed_connections_total",
			"Connections closed because of the byte budget of all calls or a header that is too large.")),
	}
	m.all = []prometheus.Collector{m.calls, m.seconds, m.inFlight, m.slow, m.certificates, m.budget}
	for i, c := range m.all {
		if err := m.registerer.Register(c); err != nil {
			for _, done := range m.all[:i] {
				m.registerer.Unregister(done)
			}
			if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
				return nil, fmt.Errorf("%w: Options.Name: %q: must differ between services on one MetricsRegisterer",
					rsync.ErrInvalidInput, o.Name)
			}
			return nil, fmt.Errorf("%w: Options.MetricsRegisterer: %w", rsync.ErrInvalidInput, err)
		}
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m == nil {
		return
	}
	for _, c := range m.all {
		m.registerer.Unregister(c)
	}
}

// waiting are the methods without a recorded duration: they wait for events, clusters or clients.
var waiting = []string{"Wait", "Watch", "Diff", "Alert"}

// begin records a call, and returns a function that records its end.
func (m *metrics) begin(method string) func(error) {
	if m == nil {
		return func(error) {}
	}
	began := time.Now()
	inFlight := m.inFlight.WithLabelValues(method)
	inFlight.Inc()
	return func(err error) {
		inFlight.Dec()
		m.calls.WithLabelValues(method, status.Code(err).String()).Inc()
		if !slices.Contains(waiting, method) {
			m.seconds.WithLabelValues(method).Observe(time.Since(began).Seconds())
		}
	}
}

func (m *metrics) slowWatch() {
	if m != nil {
		m.slow.Inc()
	}
}

func (m *metrics) certificateError() {
	if m != nil {
		m.certificates.Inc()
	}
}

func (m *metrics) overBudget() {
	if m != nil {
		m.budget.Inc()
	}
}
