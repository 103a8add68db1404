// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
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
	// The agent may be heard again between two reads, so all statuses are read until they agree.
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		state := f.State(t.Context())
		detail, _ := f.Cluster(t.Context(), "c1")
		c, a := state.Clusters[0], state.Applications[0]
		silent := c.Agent == status.Silent && c.Health == status.Unknown && c.Sync == status.SyncUnknown &&
			!c.LastHeard.IsZero() && strings.Contains(c.Reason, "no message from its agent since ") && c.On[status.Unknown] == 1
		rolledUp := a.Health == status.Unknown &&
			strings.Contains(a.Reason, "1 of 1 clusters is Unknown: c1: no message from its agent since ")
		detailed := len(detail.Placements) == 1 && detail.Placements[0].Sync == status.SyncUnknown &&
			strings.Contains(detail.Placements[0].Reason, "last reported: Healthy")
		if silent && rolledUp && detailed {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v\n%+v", state, detail)
		}
	}
	const (
		silent = `"Lost contact with a cluster: its agent, or its connection, is down" cluster=c1 lastReport=`
		back   = `"Received a message of a silent cluster" cluster=c1 lastReport=`
	)
	if text := f.records.await(t, silent); strings.Count(text, silent) > 1+strings.Count(text, back) {
		t.Errorf("the hub logged:\n%s", text)
	}
}

// TestConnections checks that clusters without an agent look different: one that never joined, and
// those that no document names.
func TestConnections(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.strangers, f.revoked = map[string]string{"c3": "hubb"}, "c5"
	for _, text := range []string{"kind: Cluster\nmetadata: {name: c1}\n", "kind: Cluster\nmetadata: {name: c3}\n",
		"kind: Cluster\nmetadata: {name: c4}\n", "kind: Cluster\nmetadata: {name: c5}\n"} {
		if err := f.put(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"c1": "Connected Synced Healthy: no application is on the cluster",
		"c2": "Connected Synced Unknown: no document names the cluster, but its agent has connected: add a Cluster document",
		"c3": `NeverJoined Unknown Missing: its agent asks for the source "hubb", and this hub is "hub"`,
		"c4": "NeverJoined Unknown Missing: no agent of the cluster has ever connected",
		"c5": "Revoked Unknown Unknown: its certificates are revoked: to admit it again, run hub token create --cluster c5",
	}
	got := map[string]string{}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		for _, c := range f.State(t.Context()).Clusters {
			got[c.Name] = fmt.Sprintf("%s %s %s: %s", c.Agent, c.Sync, c.Health, c.Reason)
		}
		wrong := 0
		for name, text := range want {
			if !strings.HasPrefix(got[name], text) {
				wrong++
			}
		}
		if wrong == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// TestMetrics checks the metrics for alerts.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.objects.set("one", nil)
	f.shop()
	f.is("Synced Healthy", "")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.Collector())
	check := func(sync, health string) {
		t.Helper()
		metertest.Expect(t, registry, map[string]float64{
			"spokewire_hub_applications health=" + health + " sync=" + sync: 1,
			"spokewire_hub_clusters agent=Connected health=Healthy":         1,
			"spokewire_hub_placements health=Healthy":                       1, "spokewire_hub_documents_refused": 0,
		})
	}
	check("Synced", "Healthy")
	f.objects.set("", nil)
	if err := f.Changed(t.Context(), "shop", "the Secret is gone"); err != nil {
		t.Fatal(err)
	}
	check("OutOfSync", "Degraded")
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
