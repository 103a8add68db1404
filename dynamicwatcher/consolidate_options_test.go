// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

func TestConsolidateOptionsAreValidated(t *testing.T) {
	for name, options := range map[string]dynamicwatcher.Options{
		"negative":  {Consolidate: &dynamicwatcher.ConsolidateOptions{MinObjects: -1}},
		"too small": {Consolidate: &dynamicwatcher.ConsolidateOptions{MaxRatio: -1}},
		"cache":     {Consolidate: &dynamicwatcher.ConsolidateOptions{}, EnableCache: true},
	} {
		if _, err := dynamicwatcher.NewForConfig(&rest.Config{Host: "http://fake"}, &recorder{}, &options); !errors.Is(err,
			dynamicwatcher.ErrInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	script(t, dynamicwatcher.Options{Consolidate: &dynamicwatcher.ConsolidateOptions{}}, func(x *fixture) {
		x.watchSecrets(31)
		x.shared("31 are too few", 0, 31)
		x.must(x.AddWatcher(p, secret(31)))
		x.after(time.Minute)
		x.shared("32 are enough", 32, 1)
	})
}

func TestMetricsOfSharedWatches(t *testing.T) {
	registry := prometheus.NewRegistry()
	options := consolidateEarly
	options.MetricsRegisterer = registry
	script(t, options, func(x *fixture) {
		x.watchSecrets(5)
		x.watch(id(fakeapi.ConfigMap, "ns", "a"))
		metertest.Expect(t, registry, map[string]float64{
			"spokewire_dynamicwatcher_watches name=dynamicwatcher state=Active": 6,
			"spokewire_dynamicwatcher_consolidated_objects name=dynamicwatcher": 5,
			"spokewire_dynamicwatcher_consolidated_watches name=dynamicwatcher": 1,
		})
		metertest.Lint(t, registry)
	})
}
