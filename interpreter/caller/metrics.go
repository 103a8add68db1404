// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/interpreter"
)

// metrics are always recorded, and exported with a registerer.
type metrics struct {
	caller     *Caller
	registerer prometheus.Registerer
	invalid    atomic.Int64

	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	webhooks *prometheus.Desc
	refused  *prometheus.Desc
}

func newMetrics(c *Caller) *metrics {
	const prefix = "spokewire_interpreter_caller_"
	return &metrics{
		caller: c,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "calls_total", Help: "Calls by webhook, operation and result: success or the reason of the error.",
		}, []string{"webhook", "operation", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "call_seconds", Help: "Duration of calls with their retries, in seconds.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"webhook"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "retries_total",
			Help: "Retries of calls that did not reach the server, or that a busy server rejected.",
		}, []string{"webhook"}),
		webhooks: prometheus.NewDesc(prefix+"webhooks", "Configured webhooks by protocol.", []string{"protocol"}, nil),
		refused:  prometheus.NewDesc(prefix+"invalid_configurations", "Invalid configurations.", nil, nil),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	if registerer == nil {
		return nil
	}
	if err := registerer.Register(m); err != nil {
		return fmt.Errorf("invalid Options.MetricsRegisterer: %w", err)
	}
	m.registerer = registerer
	return nil
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	m.calls.Describe(out)
	m.seconds.Describe(out)
	m.retries.Describe(out)
	out <- m.webhooks
	out <- m.refused
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.calls.Collect(out)
	m.seconds.Collect(out)
	m.retries.Collect(out)
	count := map[interpreter.Protocol]int{interpreter.ProtocolExplore: 0, interpreter.ProtocolInterpret: 0}
	if x := m.caller.index.Load(); x != nil {
		for _, w := range x.webhooks {
			count[w.protocol]++
		}
	}
	for protocol, n := range count {
		out <- prometheus.MustNewConstMetric(m.webhooks, prometheus.GaugeValue, float64(n), string(protocol))
	}
	out <- prometheus.MustNewConstMetric(m.refused, prometheus.GaugeValue, float64(m.invalid.Load()))
}

// begin starts the measurement of a call. The returned function records its end.
func (m *metrics) begin(w *webhook, operation interpreter.Operation) func(error) {
	began := time.Now()
	return func(err error) {
		result := "success"
		var failed *CallError
		switch {
		case errors.As(err, &failed):
			result = string(failed.Reason)
		case err != nil:
			result = string(ReasonRequest)
		}
		m.calls.WithLabelValues(w.id, string(operation), result).Inc()
		m.seconds.WithLabelValues(w.id).Observe(time.Since(began).Seconds())
	}
}

func (m *metrics) retried(w *webhook) { m.retries.WithLabelValues(w.id).Inc() }

// forget deletes the series of removed webhooks, since users choose the names. A call in progress
// adds its series again.
func (m *metrics) forget(before, now *index) {
	if before == nil {
		return
	}
	there := make(map[string]bool, len(now.webhooks))
	for _, w := range now.webhooks {
		there[w.id] = true
	}
	for _, w := range before.webhooks {
		if gone := (prometheus.Labels{"webhook": w.id}); !there[w.id] {
			m.calls.DeletePartialMatch(gone)
			m.seconds.DeletePartialMatch(gone)
			m.retries.DeletePartialMatch(gone)
		}
	}
}
