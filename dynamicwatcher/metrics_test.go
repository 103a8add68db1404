// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// TestMetricsCountEvents checks the metrics after each event that they count.
func TestMetricsCountEvents(t *testing.T) {
	registry := prometheus.NewRegistry()
	script(t, dynamicwatcher.Options{MetricsRegisterer: registry, Name: "policies"}, func(x *fixture) {
		expect := func(when string, want map[string]float64) {
			t.Helper()
			t.Log(when)
			full := map[string]float64{}
			for name, value := range want {
				full["spokewire_dynamicwatcher_"+name] = value
			}
			metertest.Expect(t, registry, full)
		}
		x.put(secretA)
		x.watch(secretA)
		x.after(0)
		expect("an object exists", map[string]float64{
			"watches name=policies state=Active": 1, "watches name=policies state=Backoff": 0,
			"watchers name=policies": 1, "queue_depth name=policies": 0,
			"establish_seconds_count name=policies":         1,
			"triggers_total name=policies type=Initial":     1,
			"reconciles_total name=policies result=success": 1,
			"reconcile_seconds_count name=policies":         1,
			"queue_seconds_count name=policies":             1,
		})
		x.r.do = func(context.Context, dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.TerminalError(errors.New("no"))
		}
		x.put(secretA, "changed", "yes")
		x.after(0)
		x.faulty("watch", fakeapi.Fault{Status: 503})
		x.api.Disconnect()
		x.after(time.Second)
		expect("it was changed, and the server is busy", map[string]float64{
			"watches name=policies state=Active": 0, "watches name=policies state=Backoff": 1,
			"triggers_total name=policies type=Modified":           1,
			"reconciles_total name=policies result=terminal_error": 1,
			"watch_ends_total name=policies reason=connection":     1,
		})
		metertest.Lint(t, registry)
		x.stop()
		if left := metertest.Values(t, registry); len(left) > 0 {
			t.Errorf("after Start there are still %d metrics", len(left))
		}
	})
}

// TestTwoWatchersOnOneRegistererNeedTwoNames checks that two watchers with one registerer need
// different names.
func TestTwoWatchersOnOneRegistererNeedTwoNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	again := func(name string) error {
		_, err := dynamicwatcher.New(&dynamicwatcher.Options{
			Reconciler: &recorder{}, Mapper: mapperOf(), Config: &rest.Config{Host: "http://fake"}, MetricsRegisterer: registry,
			Name: name,
		})
		return err
	}
	if err := errors.Join(again("one"), again("two")); err != nil {
		t.Error(err)
	}
	if err := again("one"); !errors.Is(err, dynamicwatcher.ErrInvalidInput) {
		t.Errorf("the same name again: %v", err)
	}
}
