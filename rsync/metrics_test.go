// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// expectMetrics checks samples of the engine e.
func expectMetrics(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	full := map[string]float64{}
	for key, value := range want {
		full["spokewire_rsync_"+key] = value
	}
	metertest.Expect(t, registry, full)
}

// TestMetrics checks the values of the metrics during the life of an event.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		registry := prometheus.NewRegistry()
		faults := storetest.NewFaults(r.memory, func(n int, _ []store.Op) storetest.Verdict {
			if n == 4 { // the begin of the event
				return storetest.VerdictFailBefore
			}
			return storetest.VerdictPass
		})
		engine, stop := startEngine(t, faults, r.clusters,
			rsync.Options{Name: "e", MetricsRegisterer: registry, LeaseTTL: 3 * time.Second})
		r.engine = engine
		r.create("a", "web@c1 x=1; web@c2 x=1")
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		r.clusters.Cluster("edge", "c2").Intercept(refuseOnce())
		ref := r.ref(engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		expectMetrics(t, registry, map[string]float64{
			"queued_total event=Instantiate name=e":            1,
			"unreachable_clusters name=e":                      1,
			"active_contexts name=e":                           1,
			"running_contexts name=e":                          1,
			"transactions_total name=e result=error":           1,
			"calls_total name=e result=unreachable verb=apply": 1,
			"calls_total name=e result=retryable verb=apply":   1,
			"calls_total name=e result=done verb=apply":        1,
			"resumed_total name=e":                             0,
			"sessions_lost_total name=e":                       0,
		})
		faults.Hold() // longer than the lease: the next session resumes the event
		time.Sleep(10 * time.Second)
		faults.Release()
		time.Sleep(time.Minute)
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		r.done(ref, nil)
		time.Sleep(time.Minute)
		expectMetrics(t, registry, map[string]float64{
			"events_total event=Instantiate name=e status=Done": 1,
			"event_seconds_count event=Instantiate name=e":      1,
			"unreachable_clusters name=e":                       0,
			"active_contexts name=e":                            0,
			"running_contexts name=e":                           0,
			"resumed_total name=e":                              1,
			"calls_total name=e result=done verb=probe":         1,
		})
		values := metertest.Values(t, registry)
		if s := values["spokewire_rsync_event_seconds_sum event=Instantiate name=e"]; s < 120 || s > 140 {
			t.Errorf("the event took %v s", s)
		}
		if n := values["spokewire_rsync_sessions_lost_total name=e"]; n < 1 {
			t.Errorf("%v sessions lost", n)
		}
		if n := values["spokewire_rsync_transactions_total name=e result=done"]; n < 6 {
			t.Errorf("%v transactions done", n)
		}
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeRefusing)
		r.fails(rsync.ReasonRefused, r.ref(engine.Terminate(t.Context(), "a")), nil)
		synctest.Wait() // an event is counted after the write for which fails has waited
		expectMetrics(t, registry, map[string]float64{
			"events_total event=Terminate name=e status=Error": 1,
			"calls_total name=e result=refused verb=delete":    1,
			"queued_total event=Terminate name=e":              1,
		})
		metertest.Lint(t, registry)
		stop()
		if left := metertest.Values(t, registry); len(left) != 0 {
			t.Errorf("after the end there are still %v", maps.Keys(left))
		}
	})
}

// refuseOnce returns an interceptor of a fake cluster that refuses the first call for now.
func refuseOnce() func(fake.Verb, connector.Batch) error {
	done := false
	return func(fake.Verb, connector.Batch) error {
		if done {
			return nil
		}
		done = true
		return &connector.Error{Class: connector.ErrRetryable}
	}
}
