// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/meter"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

func TestSet(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s := meter.New("source", "hub")
	s.Counter("a_total", "A.").Inc()
	s.Counters("b_total", "B.", "reason", "x", "y")["y"].Add(2)
	s.Histogram("c_seconds", "C.", 1, 2).Observe(1.5)
	d := s.Desc("d", "D.", "lane")
	e := s.Desc("e_total", "E.")
	s.OnScrape(func(out chan<- prometheus.Metric) {
		out <- meter.Gauge(d, meter.Bool(true), "live")
		out <- meter.Total(e, 7)
	})
	if err := s.Register(r); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"a_total":          1,
		"b_total reason=x": 0,
		"b_total reason=y": 2,
		"c_seconds_count":  1,
		"c_seconds_sum":    1.5,
		"d lane=live":      1,
		"e_total":          7,
	}
	if diff := cmp.Diff(want, metertest.Values(t, r)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestRegister(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	register := func(kind, client string) (*meter.Set, error) {
		s := meter.New(kind, client)
		s.Counter("a_total", "A.")
		s.Desc("b", "B.")
		err := s.Register(r)
		return s, err
	}
	first, err := register("source", "hub")
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range [][2]string{{"source", "other"}, {"agent", "hub"}} {
		if _, err := register(other[0], other[1]); err != nil {
			t.Errorf("beside another: %v", err)
		}
	}
	_, err = register("source", "hub")
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) || !strings.Contains(err.Error(), `has metrics of source "hub" already`) {
		t.Errorf("twice: %v", err)
	}
	r.Unregister(first)
	if _, err := register("source", "hub"); err != nil {
		t.Errorf("after the first: %v", err)
	}
	// This registerer adds a label that the meter also has.
	clash := prometheus.WrapRegistererWith(prometheus.Labels{"client": "x"}, prometheus.NewPedanticRegistry())
	s := meter.New("source", "hub")
	s.Counter("a_total", "A.")
	if err := s.Register(clash); err == nil || !strings.Contains(err.Error(), `rejects the metrics of source "hub"`) {
		t.Errorf("a label twice: %v", err)
	}
}

// TestByType checks that the label has the end of the type, and that a peer cannot create an
// unlimited number of values.
func TestByType(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s := meter.New("source", "hub")
	b := s.ByType("events_sent", "A.", "B.")
	if err := s.Register(r); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.Of("io.open-cluster-management.v1.manifestwork.spec.created").Add(100)
	}
	b.Of("io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request").Add(1)
	b.Of("short").Add(1)
	got := metertest.Values(t, r)
	for key, want := range map[string]float64{
		"events_sent_total type=spec.created":        2,
		"events_sent_bytes_total type=spec.created":  200,
		"events_sent_total type=spec.create_request": 1,
		"events_sent_total type=short":               1,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for i := range 1000 {
		b.Of(fmt.Sprint("t", i)).Add(1)
	}
	got = metertest.Values(t, r)
	if n := len(got) / 2; n > 40 {
		t.Errorf("%d types are told apart", n)
	}
	if n := got["events_sent_total type=other"]; n != 1003-32 {
		t.Errorf("%v other types", n)
	}
}

func TestByTypeAllocates(t *testing.T) {
	b := meter.New("source", "hub").ByType("events_sent", "A.", "B.")
	const eventType = "io.open-cluster-management.v1.manifestwork.spec.created"
	if n := testing.AllocsPerRun(1000, func() { b.Of(eventType).Add(100) }); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkByType(b *testing.B) {
	t := meter.New("source", "hub").ByType("events_sent", "A.", "B.")
	const eventType = "io.open-cluster-management.v1.manifestwork.spec.created"
	b.ReportAllocs()
	for b.Loop() {
		t.Of(eventType).Add(100)
	}
}
