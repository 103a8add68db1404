// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// TestSilentAgent checks that a cluster with an unreachable agent is shown as silent, and its other
// statuses as last reported.
func TestSilentAgent(t *testing.T) {
	f := fixtureOf(t)
	f.objects.set("one", nil)
	f.beat = 20 * time.Millisecond // the agents respond once a minute
	f.start()
	f.shop()
	f.has("c1", "one")
	var c page.Cluster
	var p page.Placement
	for end := time.Now().Add(patience); c.Status.Word != "Silent" ||
		!strings.Contains(c.Status.Reason, "last reported: Current") ||
		p.Status.Word != "Applied"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v, %+v", c, p)
		}
		state := f.State()
		c, p = state.Clusters[0], state.Applications[0].Placements[0]
	}
	const (
		silent = `"Lost contact with a cluster: its agent, or its connection, is down" cluster=c1 lastReport=`
		back   = `"Received a message of a silent cluster" cluster=c1 lastReport=`
	)
	if text := f.records.await(t, silent); strings.Count(text, silent) > 1+strings.Count(text, back) {
		t.Errorf("the hub logged:\n%s", text)
	}
	if c.Status.Tone != page.Bad || c.LastReport.IsZero() {
		t.Errorf("%+v", c)
	}
	if p.Status.Tone != page.Unknown || p.Status.Reason != "last report, its agent is silent" {
		t.Errorf("%+v", p)
	}
}

// TestMetrics checks the metrics for alerts.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.is("Deployed", "")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.Collector())
	check := func(state string) {
		t.Helper()
		metertest.Expect(t, registry, map[string]float64{
			"spokewire_hub_applications state=" + state: 1, "spokewire_hub_clusters state=Current": 1,
			"spokewire_hub_documents_refused": 0,
		})
	}
	check("Deployed")
	f.objects.set("", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret is gone"); err != nil {
		t.Fatal(err)
	}
	check("Held up")
	if at := metertest.Values(t, registry)["spokewire_hub_documents_accepted_timestamp_seconds"]; time.Since(
		time.UnixMilli(int64(at*1000))).Abs() > time.Hour {
		t.Errorf("accepted at %v", at)
	}
	metertest.Lint(t, registry)
}

// records has the log of a hub.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds a record.
func (r *records) Write(record []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(record)
}

// await waits for a record, and returns all.
func (r *records) await(t *testing.T, want string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		text := r.text.String()
		r.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("the hub logged:\n%s\nwant %s", text, want)
		}
	}
}
