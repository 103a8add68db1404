// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package metertest reads metrics in tests.
package metertest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// Values returns the samples of a registry by name. A name has no prefix, and has all labels except
// kind and client, for example `events_sent_total type=spec.created`. A histogram has only _count
// and _sum.
func Values(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "spokewire_cloudevents_")
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				if l.GetName() != "kind" && l.GetName() != "client" {
					labels += " " + l.GetName() + "=" + l.GetValue()
				}
			}
			if h := m.GetHistogram(); h != nil {
				out[name+"_count"+labels] = float64(h.GetSampleCount())
				out[name+"_sum"+labels] = h.GetSampleSum()
				continue
			}
			out[name+labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// Expect compares some samples of a registry with the wanted values.
func Expect(t testing.TB, g prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	got := Values(t, g)
	for key, value := range want {
		if have, ok := got[key]; !ok || have != value {
			t.Errorf("%s: got %v (there: %v), want %v", key, have, ok, value)
		}
	}
}

// Lint checks the names and types in a registry against the Prometheus conventions.
func Lint(t testing.TB, g prometheus.Gatherer) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
