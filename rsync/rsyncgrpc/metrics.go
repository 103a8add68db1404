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

	"github.com/spokewire/sdk-go/internal/meter"
	"github.com/spokewire/sdk-go/rsync"
)

// metrics are the metrics of the services. Each method does nothing on nil.
type metrics struct {
	registerer prometheus.Registerer
	set        *meter.Set

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
	set := meter.NewSet("rsync_grpc", prometheus.Labels{"name": o.Name})
	m := &metrics{
		registerer: o.MetricsRegisterer, set: set,
		calls: set.CounterVec("calls_total", "Calls that ended.", "method", "code"),
		seconds: set.HistogramVec("call_seconds", "Duration of calls.", []string{"method"},
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		inFlight:     set.GaugeVec("calls_in_flight", "Calls that have not ended.", "method"),
		slow:         set.Counter("slow_watches_total", "Watches ended because their client read too slowly."),
		certificates: set.Counter("certificate_errors_total", "Files of certificates and keys that could not be used."),
		budget: set.Counter("budget_closed_connections_total",
			"Connections closed because of the byte budget of all calls or a header that is too large."),
	}
	err := m.registerer.Register(set)
	switch {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return nil, fmt.Errorf("%w: Options.Name: %q: must differ between services on one MetricsRegisterer",
			rsync.ErrInvalidInput, o.Name)
	case err != nil:
		return nil, fmt.Errorf("%w: Options.MetricsRegisterer: %w", rsync.ErrInvalidInput, err)
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m != nil {
		m.registerer.Unregister(m.set)
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
