// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/meter"
	"github.com/spokewire/sdk-go/interpreter"
)

// metrics are always recorded, and exported with a registerer.
type metrics struct {
	set        *meter.Set
	registerer prometheus.Registerer
	invalid    atomic.Int64

	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	retries *prometheus.CounterVec
}

func newMetrics(c *Caller) *metrics {
	set := meter.NewSet("interpreter_caller", nil)
	m := &metrics{
		set: set,
		calls: set.CounterVec("calls_total", "Calls by webhook, operation and result: success or the reason of the error.",
			"webhook", "operation", "result"),
		seconds: set.HistogramVec("call_seconds", "Duration of calls with their retries, in seconds.",
			[]string{"webhook"}, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		retries: set.CounterVec("retries_total",
			"Retries of calls that did not reach the server, or that a busy server rejected.", "webhook"),
	}
	webhooks := set.Desc("webhooks", "Configured webhooks by protocol.", "protocol")
	invalid := set.Desc("invalid_configurations", "Invalid configurations.")
	set.OnScrape(func(out chan<- prometheus.Metric) {
		count := map[interpreter.Protocol]int{interpreter.ProtocolExplore: 0, interpreter.ProtocolInterpret: 0}
		if x := c.index.Load(); x != nil {
			for _, w := range x.webhooks {
				count[w.protocol]++
			}
		}
		for protocol, n := range count {
			out <- meter.Gauge(webhooks, float64(n), string(protocol))
		}
		out <- meter.Gauge(invalid, float64(m.invalid.Load()))
	})
	return m
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	if registerer == nil {
		return nil
	}
	if err := registerer.Register(m.set); err != nil {
		return fmt.Errorf("invalid Options.MetricsRegisterer: %w", err)
	}
	m.registerer = registerer
	return nil
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m.set)
	}
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
