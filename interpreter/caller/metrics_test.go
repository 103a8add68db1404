// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter/caller"
)

// TestMetricsOfRemovedWebhooksAreDeleted checks that metrics have series only for the current webhooks, after many changes.
func TestMetricsOfRemovedWebhooksAreDeleted(t *testing.T) {
	server, ca := serve(t, healthy(true))
	registry := prometheus.NewRegistry()
	c := configured(t, caller.Options{MetricsRegisterer: registry}, inter())
	for i := range 20 {
		if err := c.SetConfigurations(inter(interpreting(fmt.Sprint("c", i), at(server.URL, ca)),
			interpreting("stays", nowhere, kindRule("Prune", "*", "*", "*")))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Health(t.Context(), object()); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Prune(t.Context(), object()) // the webhook of c0 does not support it
	}
	series := map[string]bool{}
	for name := range metertest.Values(t, registry) {
		if _, webhook, ok := strings.Cut(name, "webhook="); ok {
			series[webhook] = true
		}
	}
	if len(series) > 2 || !series["c19/w.c19.example.com"] {
		t.Errorf("there are series of %v", series)
	}
}

// TestConfigurationNamesMayBeAnyText checks that the names of configurations may be any text.
func TestConfigurationNamesMayBeAnyText(t *testing.T) {
	server, ca := serve(t, healthy(true))
	odd := interpreting("a", at(server.URL, ca))
	odd.Name = "a\xff"
	c := configured(t, caller.Options{MetricsRegisterer: prometheus.NewRegistry()}, inter(odd))
	if _, err := c.Health(t.Context(), object()); err != nil {
		t.Error(err)
	}
	err := c.SetConfigurations(inter(interpreting("a", nowhere), interpreting("a", nowhere)))
	if err == nil || err.Error() != `a: metadata.name: Duplicate value: "a"` {
		t.Errorf("two of a name: %v", err)
	}
	both := explore(exploring("a", nowhere))
	both.Interpreting = inter(interpreting("a", nowhere)).Interpreting
	if err := c.SetConfigurations(both); err != nil {
		t.Errorf("one of a name in each protocol: %v", err)
	}
}
