// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// recorder is a transport that records the topics of publications, and the filters.
type recorder struct {
	cloudevents.Transport
	mu                 sync.Mutex
	published, filters map[string]bool
}

func record(transport cloudevents.Transport) *recorder {
	return &recorder{Transport: transport, published: map[string]bool{}, filters: map[string]bool{}}
}

func (r *recorder) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	r.mu.Lock()
	for _, filter := range slices.Concat(o.Filters, o.Optional) {
		r.filters[filter] = true
	}
	r.mu.Unlock()
	conn, err := r.Transport.Connect(ctx, o)
	return &recorded{conn, r}, err
}

func (r *recorder) topics() (publish, subscribe []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.published)), slices.Sorted(maps.Keys(r.filters))
}

type recorded struct {
	cloudevents.Conn
	*recorder
}

func (r *recorded) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	r.mu.Lock()
	r.published[m.Topic] = true
	r.mu.Unlock()
	return r.Conn.Publish(ctx, m, done)
}

// sorted returns the topics of the table with names, for cluster1 instead of all clusters.
func sorted(topics []string) []string {
	out := named(topics, "hub", "cluster1")
	slices.Sort(out)
	return out
}

// connected is the time of a connection in which the peers compare their works.
const connected = 5 * time.Second

// TestTableHasAllTopics checks that a source and an agent use all topics of the table, and no others.
func TestTableHasAllTopics(t *testing.T) {
	bus := memory.New()
	hub, cluster1 := record(bus.Transport()), record(bus.Transport())
	source, err := work.NewSource(hub, work.SourceOptions{SourceID: "hub", ResyncInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(cluster1, work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, source.Start)
	run(t, agent.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, source, "cluster1", "app")
	apply(t, agent, "cluster1", "app")
	for peer, r := range map[string]*recorder{"source": hub, "cluster": cluster1} {
		publish := named(table[peer].publish, "hub", "cluster1")
		for i := range publish {
			publish[i] = strings.ReplaceAll(publish[i], "+", "cluster1")
		}
		slices.Sort(publish)
		var got []string
		next := time.Now().Add(connected)
		eventually(t, "all topics of the "+peer, func() bool {
			got, _ = r.topics()
			if len(got) < len(publish) && time.Now().After(next) {
				bus.Disconnect() // lists and comparisons follow a connection
				bus.Reconnect()
				next = time.Now().Add(connected)
			}
			return len(got) >= len(publish)
		})
		if diff := cmp.Diff(publish, got); diff != "" {
			t.Errorf("topics that the %s publishes to (-want +got):\n%s", peer, diff)
		}
		_, got = r.topics()
		if diff := cmp.Diff(sorted(table[peer].subscribe), got); diff != "" {
			t.Errorf("filters of the %s (-want +got):\n%s", peer, diff)
		}
	}
}

// TestTopicsFitLimits checks topics and filters against the lowest limits in README.md of
// examples/hub/brokers.
func TestTopicsFitLimits(t *testing.T) {
	const slashes, size, filters = 7, 256, 8
	longest := strings.Repeat("n", 63) // of a Kubernetes namespace
	for peer, r := range table {
		if n := len(r.subscribe); n > filters {
			t.Errorf("the %s subscribes to %d filters at once, want at most %d", peer, n, filters)
		}
		for _, topic := range named(slices.Concat(r.publish, r.subscribe), longest, longest) {
			shared := "$share/" + longest + "/" + strings.Replace(topic, "+", longest, 1)
			if n := strings.Count(shared, "/"); n > slashes || len(shared) > size {
				t.Errorf("%s has %d slashes and %d bytes, want at most %d and %d", shared, n, len(shared), slashes, size)
			}
		}
	}
}
