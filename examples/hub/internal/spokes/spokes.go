// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package spokes connects the hub to clusters: a source of ManifestWorks over a broker, which
// stores them, and the engine's connectors, which use it to reach the agents.
package spokes

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// manager identifies the works of the hub.
const manager = "hub"

// Beat is the interval of resyncs, which every agent with works answers. An agent without a message
// for longer is offline, or its broker is.
const Beat = time.Minute

// Spokes is the connection to all clusters.
type Spokes struct {
	*work.Source
	// Health tracks the health of all objects on them.
	Health *health.Tracker
}

// Options configures [Open].
type Options struct {
	Transport cloudevents.Transport
	// SourceID identifies the hub, and Store stores the works. With SharedGroup, several replicas of
	// the hub share it: see [work.SourceOptions].
	SourceID, SharedGroup string
	Store                 work.Store
	// Interpreter is the first to interpret the health of objects: see [health.New]. Changed is called
	// when works have changed.
	Interpreter health.Interpreter
	Changed     func()
	Tracer      work.Tracer // nil means no spans

	MetricsRegisterer prometheus.Registerer
}

// Open starts no connection.
func Open(o Options) (*Spokes, error) {
	source, err := work.NewSource(o.Transport, work.SourceOptions{
		SourceID: o.SourceID, SharedGroup: o.SharedGroup, Store: o.Store, ResyncInterval: Beat,
		MetricsRegisterer: o.MetricsRegisterer, Tracer: o.Tracer,
	})
	if err != nil {
		return nil, err
	}
	tracker, err := health.New(source.Clientset(), manager, o.Interpreter, o.Changed)
	if err != nil {
		return nil, err
	}
	return &Spokes{Source: source, Health: tracker}, nil
}

// LastReports returns when the last message of the agent of each cluster arrived since the hub
// started.
func (s *Spokes) LastReports() map[string]time.Time {
	out := map[string]time.Time{}
	for _, c := range s.Clusters() {
		out[c.Name] = c.LastHeard
	}
	return out
}

// Link returns an error while works and statuses cannot be exchanged with the agents, or while
// another process interferes.
func (s *Spokes) Link() error {
	if err := s.Readyz(nil); err != nil {
		return err
	}
	return s.Healthy()
}

// Connector implements [connector.Connectors]. It also succeeds for a cluster with an offline
// agent: the works wait for the agent.
func (s *Spokes) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	connectors, err := manifestwork.New(s.Health.Writing(s.Clientset().WorkV1()), manifestwork.Options{
		Manager: manager, Config: health.Config, State: s.Health.State(cluster),
	})
	if err != nil {
		return nil, err
	}
	c, err := connectors.Connector(ctx, provider, cluster)
	if err != nil {
		return nil, err
	}
	return s.Health.Watching(cluster, c), nil
}

// Missing reports whether an installed object of an application is in no work, or is different
// there: the file of works was lost, or is outdated.
func (s *Spokes) Missing(ctx context.Context, r *render.Rendering) (bool, error) {
	if !s.Health.Synced(ctx) {
		return false, ctx.Err()
	}
	for id, resource := range r.Resources {
		if r.Installs(id) && !same(resource.Manifest, []byte(s.Health.Manifest(id))) {
			return true, nil
		}
	}
	return false, nil
}

// same reports whether two JSON manifests are equal.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
