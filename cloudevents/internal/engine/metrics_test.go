// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// withMetrics is withRig with a metrics registry.
func withMetrics(t *testing.T, script func(*rig, *prometheus.Registry)) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	withRig(t, engine.Options{MetricsRegisterer: registry}, func(r *rig) { script(r, registry) })
}

func TestMetricsOfTraffic(t *testing.T) {
	withMetrics(t, func(r *rig, registry *prometheus.Registry) {
		r.handler.requests = []engine.Item{&note{topic: "request"}}
		r.transport.nack = map[string]error{"refused": errTest}
		r.transport.reject = map[string]error{"large": &cloudevents.TooLargeError{Topic: "large", Size: 2, Limit: 1}}
		r.engine.Enqueue(engine.LaneBulk, &note{topic: "early"})
		time.Sleep(3 * time.Second)
		r.engine.Enqueue(engine.LaneLive, &note{topic: "work"})
		time.Sleep(2 * time.Second)
		metertest.Expect(t, registry, map[string]float64{
			"outbox_depth lane=control":                 0,
			"outbox_depth lane=live":                    1,
			"outbox_oldest_seconds":                     2,
			"connected":                                 0,
			"events_dropped_total reason=too_large":     0, // exists before the first drop
			"connect_failures_total permanent=true":     0,
			"publish_seconds_count":                     0,
			"packet_limit_bytes":                        0,
			"events_dropped_total reason=not_encodable": 0,
		})
		r.start()
		for _, it := range []*note{{topic: "refused"}, {topic: "large"}, {topic: "none", empty: true}, {err: errTest}} {
			r.engine.Enqueue(engine.LaneBulk, it)
		}
		held := &note{topic: "refused"}
		r.engine.Enqueue(engine.LaneLive, held)
		synctest.Wait()
		metertest.Expect(t, registry, map[string]float64{
			"events_sent_total type=":                       2, // request and work; events of the fake have no type
			"publish_seconds_count":                         1, // work only: requests are not in the lane Live
			"publish_seconds_sum":                           2,
			"publish_refusals_total":                        2,
			"events_dropped_total reason=refused_by_broker": 1, // the Live item is kept
			"events_dropped_total reason=too_large":         1,
			"events_dropped_total reason=not_encodable":     1,
			"events_dropped_total reason=connection_lost":   1, // early
			"outbox_depth lane=live":                        1, // held
			"outbox_inflight":                               0,
			"connected":                                     1,
			"connections_total":                             1,
			"packet_limit_bytes":                            1000,
		})
		metertest.Lint(t, registry)
	})
}

// TestMetricsOfLostConnection checks the metrics of unacknowledged events and of a lost connection.
func TestMetricsOfLostConnection(t *testing.T) {
	withMetrics(t, func(r *rig, registry *prometheus.Registry) {
		r.transport.setHold(true)
		r.start()
		began := time.Now()
		r.engine.Enqueue(engine.LaneLive, &note{topic: "work"})
		r.engine.Enqueue(engine.LaneBulk, &note{topic: "answer"})
		time.Sleep(time.Second)
		metertest.Expect(t, registry, map[string]float64{
			"outbox_inflight":        2,
			"outbox_depth lane=live": 1, "outbox_depth lane=bulk": 1,
			"outbox_oldest_seconds": 1,
		})
		r.transport.setRefuse(&cloudevents.PermanentError{Err: errTest})
		r.transport.current().cut(errTest)
		synctest.Wait()
		metertest.Expect(t, registry, map[string]float64{
			"connected":                                   0,
			"connection_changed_timestamp_seconds":        float64(time.Now().UnixMilli()) / 1000,
			"events_dropped_total reason=connection_lost": 1,
			"outbox_depth lane=bulk":                      0,
		})
		time.Sleep(5 * time.Second)
		r.transport.setRefuse(errTest)
		time.Sleep(10 * time.Second)
		r.transport.setRefuse(nil)
		r.transport.setHold(false)
		time.Sleep(time.Minute)
		got := metertest.Values(t, registry)
		for _, failures := range []string{"connect_failures_total permanent=true", "connect_failures_total permanent=false"} {
			if got[failures] == 0 {
				t.Errorf("%s is 0", failures)
			}
		}
		if got["publish_seconds_count"] != 1 || got["publish_seconds_sum"] < 10 ||
			got["publish_seconds_sum"] > time.Since(began).Seconds() {
			t.Errorf("the work took %v s", got["publish_seconds_sum"])
		}
		metertest.Expect(t, registry, map[string]float64{"connections_total": 2, "outbox_oldest_seconds": 0})
	})
}

// TestMetricsRegistration checks that a name can be registered only once until Start has returned.
func TestMetricsRegistration(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	o := options("a")
	o.MetricsRegisterer = registry
	first, err := engine.New(&fakeTransport{}, o)
	if err != nil {
		t.Fatal(err)
	}
	transport := &fakeTransport{}
	if _, err := engine.New(transport, o); err == nil || !strings.Contains(err.Error(), `metrics of client "a" already`) {
		t.Errorf("the same name: %v", err)
	}
	if transport.claimed {
		t.Error("the transport is claimed although there is no engine")
	}
	other := o
	other.Name = "b"
	if _, err := engine.New(&fakeTransport{claimed: true}, other); !errors.Is(err, cloudevents.ErrClaimed) {
		t.Errorf("a transport in use: %v", err)
	}
	if _, err := engine.New(&fakeTransport{}, other); err != nil {
		t.Errorf("after an attempt that failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.New(transport, o); err != nil {
		t.Errorf("after Start has returned: %v", err)
	}
}

// TestUnpublishedIsLoggedOnce checks that a thousand events that the broker refuses are logged as
// one line and a total. An event that is kept for the next connection has its own line.
func TestUnpublishedIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		transport := &fakeTransport{nack: map[string]error{"refused": errTest}}
		e, err := engine.New(transport, options("client"))
		if err != nil {
			t.Fatal(err)
		}
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		done := make(chan error)
		go func() { done <- e.Start(ctx) }()
		synctest.Wait()
		for range 1000 {
			e.Enqueue(engine.LaneBulk, &note{topic: "refused"})
		}
		synctest.Wait()
		e.Enqueue(engine.LaneLive, &note{topic: "refused"})
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		text := out.String()
		if n := strings.Count(text, "Failed to publish an event"); n != 3 {
			t.Errorf("%d lines, want the first, the one that is kept and the sum:\n%s", n, text)
		}
		for _, want := range []string{`reason="refused_by_broker"`, "notLogged=998",
			`reason="refused: kept for the next connection"`, `"Stopped with unpublished events" client="client" events=1`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not in\n%s", want, text)
			}
		}
	})
}

// pinger starts an engine on a transport that acknowledges immediately. The returned function
// publishes one item and waits for its acknowledgement.
func pinger(t testing.TB, registerer prometheus.Registerer) (publish func()) {
	t.Helper()
	o := options("a")
	o.MetricsRegisterer = registerer
	e, err := engine.New(echo{}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-e.Ready()
	event := ce.New()
	event.SetType("io.open-cluster-management.v1.manifestwork.spec.created")
	it := &ping{event: &event, settled: make(chan struct{})}
	return func() {
		e.Enqueue(engine.LaneLive, it)
		<-it.settled
	}
}

// TestMetricsAllocateNothing checks that an event needs no more allocations with metrics than
// without.
func TestMetricsAllocateNothing(t *testing.T) {
	off := testing.AllocsPerRun(1000, pinger(t, nil))
	on := testing.AllocsPerRun(1000, pinger(t, prometheus.NewRegistry()))
	if on > off {
		t.Errorf("%v allocations per event, %v without metrics", on, off)
	}
}

// BenchmarkPublish measures the publication of one item through an engine, without and with
// metrics.
func BenchmarkPublish(b *testing.B) {
	run := func(name string, registerer prometheus.Registerer) {
		b.Run(name, func(b *testing.B) {
			publish := pinger(b, registerer)
			b.ReportAllocs()
			for b.Loop() {
				publish()
			}
		})
	}
	run("off", nil)
	run("on", prometheus.NewRegistry())
}

// ping is an item that reports its acknowledgement on a channel.
type ping struct {
	event   *ce.Event
	settled chan struct{}
}

func (p *ping) Message() (cloudevents.Message, error) {
	return cloudevents.Message{Topic: "/t", Event: p.event}, nil
}
func (p *ping) Settled(error) { p.settled <- struct{}{} }

// echo is a transport and a connection that acknowledges immediately.
type echo struct{}

func (echo) Claim(string) error { return nil }
func (echo) Connect(context.Context, cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	return echo{}, nil
}
func (echo) Publish(_ context.Context, _ cloudevents.Message, done func(error)) error {
	done(nil)
	return nil
}
func (echo) MaxPacketSize() int    { return 0 }
func (echo) Done() <-chan struct{} { return nil }
func (echo) Err() error            { return nil }
func (echo) Close() error          { return nil }
