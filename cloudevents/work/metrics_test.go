// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// TestMetricsOfWorks checks the metrics of a source and its agent while works are created, reported
// on and deleted.
func TestMetricsOfWorks(t *testing.T) {
	inScene(t, func(s *scene) {
		onHub, onSpoke := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: onHub})
		s.settle()
		h.complete()
		s.settle()
		a := s.agent(work.AgentOptions{MetricsRegisterer: onSpoke, Sources: []string{"hub"}})
		s.settle()
		for _, name := range []string{"one", "two", "three"} {
			h.create("cluster1", newWork(name, "1"))
		}
		s.settle()
		a.report("one", "ok")
		a.setFinalizers("two", "example.com/x")
		h.delete("cluster1", "two")
		h.delete("cluster1", "three")
		w, err := h.works("cluster1").Watch(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		s.settle()
		metertest.Expect(t, onHub, map[string]float64{
			"events_sent_total type=spec.created":             5,
			"events_received_total type=status.created":       2, // on one, and that three was removed
			"statuses_total outcome=accepted":                 1,
			"statuses_total outcome=gone":                     1,
			"statuses_total outcome=ignored":                  0,
			"works state=active":                              1,
			"works state=deleting":                            1,
			"works state=tombstone":                           0,
			"works_unconfirmed":                               1, // the deletion of two
			"works_degraded":                                  0,
			"clusters":                                        1,
			"inventory_complete":                              1,
			"watchers":                                        1,
			"outbox_limit":                                    float64(work.DefaultOutbox),
			"connected":                                       1,
			"publish_seconds_count":                           5,
			"resyncs_total":                                   1,
			"events_refused_total reason=mismatch":            0,
			"writes_refused_total reason=outbox_full":         0,
			"watchers_closed_total reason=slow":               0,
			"events_dropped_total reason=connection_lost":     0,
			"events_sent_total type=statusresync.requested":   3, // connect, InventoryComplete, end of an answer
			"resync_listed_works_total direction=received":    0,
			"connect_failures_total permanent=false":          0,
			"events_received_total type=specresync.requested": 1,
		})
		metertest.Expect(t, onSpoke, map[string]float64{
			"events_received_total type=spec.created": 5,
			"events_sent_total type=status.created":   2,
			"specs_total outcome=taken":               3,
			"specs_total outcome=deletion":            2,
			"specs_total outcome=ignored":             0,
			"works state=held":                        1,
			"works state=deleting":                    1,
			"works state=tombstone":                   1,
			"works state=waiting":                     0,
			"works state=rejected":                    0,
			"sources":                                 1,
			"synced":                                  1,
			"watchers":                                0,
		})
		metertest.Lint(t, onHub)
		metertest.Lint(t, onSpoke)
	})
}

// TestMetricsOfResync: a resync of equal works lists all works and sends no work again, whichever
// side begins it.
func TestMetricsOfResync(t *testing.T) {
	inScene(t, func(s *scene) {
		onHub, onSpoke := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
		hubLink, spokeLink := &link{Transport: s.bus.Transport()}, &link{Transport: s.bus.Transport()}
		h := s.sourceOn(hubLink, work.SourceOptions{SourceID: "hub", MetricsRegisterer: onHub})
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			h.create("cluster1", newWork(fmt.Sprint("w", i), "1"))
		}
		s.settle()
		a := s.agentOn(spokeLink, work.AgentOptions{ClusterName: "cluster1", MetricsRegisterer: onSpoke})
		s.settle()
		a.report("w0", "ok")
		s.settle()
		reconnect := func(l *link) {
			l.setCut(true)
			s.settle()
			l.setCut(false)
			s.settle()
			s.settle()
		}
		grow := func(g prometheus.Gatherer, of func(), want map[string]float64) {
			t.Helper()
			before := metertest.Values(t, g)
			of()
			after := metertest.Values(t, g)
			for key, n := range want {
				if got := after[key] - before[key]; got != n {
					t.Errorf("%s grew by %v, want %v", key, got, n)
				}
			}
		}
		metertest.Expect(t, onSpoke, map[string]float64{"resyncs_total": 1, "resync_seconds_count": 1})
		grow(onHub, func() { reconnect(hubLink) }, map[string]float64{
			"resyncs_total":                                1,
			"resync_seconds_count":                         1, // one cluster
			"resync_listed_works_total direction=sent":     5,
			"resync_listed_works_total direction=received": 5,
			"resync_answers_total direction=sent":          0,
			"resync_answers_total direction=received":      0,
			"events_sent_total type=spec.created":          0,
			"statuses_total outcome=accepted":              0,
			"connections_total":                            1,
		})
		grow(onSpoke, func() { reconnect(spokeLink) }, map[string]float64{
			"resyncs_total":                                1,
			"resync_seconds_count":                         1, // one source
			"resync_listed_works_total direction=sent":     5,
			"resync_listed_works_total direction=received": 0,
			"resync_answers_total direction=sent":          0,
			"resync_answers_total direction=received":      0,
			"events_sent_total type=status.created":        0,
			"connections_total":                            1,
		})
		grow(onSpoke, func() { // while the agent is away, two works change
			spokeLink.setCut(true)
			h.setValue("cluster1", "w1", "2")
			h.setValue("cluster1", "w2", "2")
			s.settle()
			reconnect(spokeLink)
		}, map[string]float64{"resync_answers_total direction=received": 2, "specs_total outcome=taken": 2})
	})
}

// TestMetricsOfRefusals: each reason of a refused event has its own count, and a flood of invalid
// events does not fill the log.
func TestMetricsOfRefusals(t *testing.T) {
	inScene(t, func(s *scene) {
		onSpoke := prometheus.NewPedanticRegistry()
		var out bytes.Buffer
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))
		agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", MetricsRegisterer: onSpoke})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(s.t.Context(), logger))
		done := make(chan error)
		go func() { done <- agent.Start(ctx) }()
		s.settle()
		spec := &codec.Spec{
			Header:  codec.Header{ID: "x", Source: "evil", Cluster: "cluster1"},
			WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("evil", "cluster1", "app"), Version: 1, UID: "u", Name: "app"},
			Work:    newWork("app", "1"),
		}
		send := func(edit func(*cloudevents.Message)) {
			topic, event, err := codec.ManifestWork.Encode(spec)
			if err != nil {
				t.Fatal(err)
			}
			m := cloudevents.Message{Topic: topic, Event: event}
			edit(&m)
			publish(s, m)
		}
		for range 1000 {
			send(func(m *cloudevents.Message) { m.Topic = "/sources/hub/clusters/cluster1/manifests" })
		}
		send(func(m *cloudevents.Message) { m.Event.SetType("some.thing") })
		send(func(m *cloudevents.Message) { m.Event.SetExtension("resourceversion", "many") })
		send(func(m *cloudevents.Message) { m.Event.DataEncoded = []byte(`{"manifests":7}`) })
		spec.Version = 1<<63 - 1
		send(func(*cloudevents.Message) {})
		s.settle()
		metertest.Expect(t, onSpoke, map[string]float64{
			"events_refused_total reason=mismatch":             1000,
			"events_refused_total reason=type":                 1,
			"events_refused_total reason=attribute":            1,
			"events_refused_total reason=data":                 1,
			"events_refused_total reason=version_out_of_range": 1,
			"events_received_total type=spec.created":          2, // the last two events identify their work
			"specs_total outcome=asked":                        1,
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		text := out.String()
		if n := strings.Count(text, "Refused an event"); n != 6 {
			t.Errorf("%d lines, want one for each reason and a sum:\n%s", n, text)
		}
		if !strings.Contains(text, "notLogged=998") {
			t.Errorf("no sum in\n%s", text)
		}
	})
}

// TestMetricsOfDegraded checks the metrics of works that an agent cannot serve.
func TestMetricsOfDegraded(t *testing.T) {
	inScene(t, func(s *scene) {
		onSpoke := prometheus.NewPedanticRegistry()
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		s.agent(work.AgentOptions{MetricsRegisterer: onSpoke})
		s.settle()
		one.create("cluster1", newWork("app", "1"))
		s.settle()
		two.create("cluster1", newWork("app", "1")) // its name is taken
		s.settle()
		s.spoilSpecs("two", unreadable)
		two.create("cluster1", newWork("bad", "1"))
		s.settle()
		metertest.Expect(t, onSpoke, map[string]float64{
			"works state=held": 1, "works state=waiting": 1, "works state=rejected": 1, "works_degraded": 2, "sources": 2,
			"events_refused_total reason=data": 1,
		})
	})
}

// TestMetricsOfWrites checks the metrics of closed watches, and of writes that are refused without
// a connection, without room in the outbox, or for their size.
func TestMetricsOfWrites(t *testing.T) {
	inScene(t, func(s *scene) {
		full, off := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: full, Outbox: 1, SourceID: "full"})
		s.bus.SetMaxPacketSize(10_000)
		s.reconnect()
		_, err := h.works("cluster1").Create(s.t.Context(), newWork("large", strings.Repeat("x", 20_000)),
			metav1.CreateOptions{})
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("a large one: %v", err)
		}
		s.bus.Disconnect()
		s.settle()
		h.create("cluster1", newWork("one", "1"))
		if _, err := h.works("cluster1").Create(s.t.Context(), newWork("two", "1"),
			metav1.CreateOptions{}); !apierrors.IsTooManyRequests(err) {
			t.Errorf("beyond the limit: %v", err)
		}
		o := s.source(work.SourceOptions{MetricsRegisterer: off, Outbox: work.Disabled, SourceID: "off"})
		if _, err := o.works("cluster1").Create(s.t.Context(), newWork("one", "1"),
			metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("without an outbox: %v", err)
		}
		for _, version := range []string{"1", "99999999999999999"} {
			w, err := h.works("cluster1").Watch(s.t.Context(), metav1.ListOptions{ResourceVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			<-w.ResultChan()
			w.Stop()
		}
		time.Sleep(10 * time.Second)
		metertest.Expect(t, full, map[string]float64{
			"writes_refused_total reason=outbox_full": 1,
			"writes_refused_total reason=too_large":   1,
			"outbox_limit":                            1,
			"outbox_depth lane=live":                  1,
			"watchers_closed_total reason=expired":    1,
			"watchers_closed_total reason=future":     1,
			"packet_limit_bytes":                      10_000,
		})
		metertest.Expect(t, off, map[string]float64{"writes_refused_total reason=disconnected": 1, "outbox_limit": 0})
		if n := metertest.Values(t, full)["outbox_oldest_seconds"]; n < 10 {
			t.Errorf("the oldest waits for %v s", n)
		}
	})
}

// TestMetricLabelsContainNoClusterName: only the ID of an agent may contain the name of a cluster
// in a label. No label contains the name of a work.
func TestMetricLabelsContainNoClusterName(t *testing.T) {
	inScene(t, func(s *scene) {
		registry := prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: registry})
		a := s.agent(work.AgentOptions{ClusterName: "paris", MetricsRegisterer: registry})
		h.create("paris", newWork("bistro", "1"))
		s.settle()
		a.report("bistro", "open")
		s.settle()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetName() == "client" {
						ids[label.GetValue()] = true
					} else if v := label.GetValue(); strings.Contains(v, "paris") || strings.Contains(v, "bistro") {
						t.Errorf("%s has the label %s=%q", family.GetName(), label.GetName(), v)
					}
				}
			}
		}
		if diff := cmp.Diff(map[string]bool{"hub": true, "paris-work-agent": true}, ids); diff != "" {
			t.Errorf("clients (-want +got):\n%s", diff)
		}
	})
}

// TestMetricsRegistration: several clients share a registerer, each with its ID. A client may
// register after another client with its ID has stopped.
func TestMetricsRegistration(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	bus := memory.New()
	source := func(id string) (*work.Source, error) {
		return work.NewSource(bus.Transport(), work.SourceOptions{SourceID: id, MetricsRegisterer: registry})
	}
	agent := func(cluster string) (*work.Agent, error) {
		return work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: cluster, AgentID: cluster,
			MetricsRegisterer: registry})
	}
	first, err := source("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []func() error{
		func() error { _, err := source("b"); return err },
		func() error { _, err := agent("a"); return err },
	} {
		if err := other(); err != nil {
			t.Errorf("next to another client: %v", err)
		}
	}
	for want, again := range map[string]func() error{
		`work.NewSource: MetricsRegisterer has metrics of source "a" already`: func() error {
			_,
				err := source("a")
			return err
		},
		`work.NewAgent: MetricsRegisterer has metrics of agent "a" already`: func() error {
			_,
				err := agent("a")
			return err
		},
	} {
		if err := again(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("twice: %v, want %s", err, want)
		}
	}
	used := bus.Transport()
	if err := used.Claim("somebody"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the failed attempt leaves no metrics
		options := work.SourceOptions{SourceID: "c", MetricsRegisterer: registry}
		if _, err := work.NewSource(used, options); !errors.Is(err, cloudevents.ErrClaimed) {
			t.Errorf("a transport in use: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(ctx); !errors.Is(err, cloudevents.ErrStarted) {
		t.Errorf("a second Start: %v", err)
	}
	if _, err := source("a"); err != nil {
		t.Errorf("after Start has returned: %v", err)
	}
}

// BenchmarkScrape measures the cost of a scrape for a source, which holds its mutex for most of it.
func BenchmarkScrape(b *testing.B) {
	for _, size := range []int{1, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			source, err := work.NewSource(memory.New().Transport(),
				work.SourceOptions{SourceID: "hub", MetricsRegisterer: registry})
			if err != nil {
				b.Fatal(err)
			}
			for i := range size {
				works := source.Clientset().WorkV1().ManifestWorks(fmt.Sprint("cluster", i%100))
				if _, err := works.Create(b.Context(), newWork(fmt.Sprint("w", i), "1"), metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
