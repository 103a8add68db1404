// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package spokes connects the hub to clusters: a source of ManifestWorks over a broker, which
// stores them, and the engine's connectors, which use it to reach the agents.
package spokes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/revisions"
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
	Health *workhealth.Tracker
	// Declared is whether the store has a complete inventory from an earlier process.
	Declared bool
}

// Options configures [Open].
type Options struct {
	Transport cloudevents.Transport
	// SourceID identifies the hub, and Store stores the works. With SharedGroup, several replicas of
	// the hub share it: see [work.SourceOptions].
	SourceID, SharedGroup string
	Store                 work.Store
	// Interpreter is the first to interpret the health of objects. Changed is called when works have
	// changed.
	Interpreter workhealth.Interpreter
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
	tracker, err := workhealth.New(source.Clientset(), workhealth.Options{
		LabelSelector: manifestwork.LabelManager + "=" + manager, Interpreter: o.Interpreter, Changed: o.Changed,
	})
	if err != nil {
		return nil, err
	}
	return &Spokes{Source: source, Health: tracker, Declared: source.InventoryDeclared()}, nil
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
	err := s.Readyz(nil)
	if err == nil {
		err = s.Healthy()
	}
	if err != nil {
		err = errors.New(remedies.Replace(err.Error()))
	}
	return err
}

// remedies are the commands and flags of the hub for the remedies of package work.
var remedies = strings.NewReplacer("InventoryComplete is called", "hub complete declares the documents complete",
	"give both a SharedStore and a SharedGroup", "give it another --source")

// Connector implements [connector.Connectors]. It also succeeds for a cluster with an offline
// agent: the works wait for the agent.
func (s *Spokes) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	connectors, err := manifestwork.New(s.Health.Writing(s.Clientset().WorkV1()), manifestwork.Options{
		Manager: manager, Config: configOf, State: s.state(cluster),
	})
	if err != nil {
		return nil, err
	}
	c, err := connectors.Connector(ctx, provider, cluster)
	if err != nil {
		return nil, err
	}
	return &watching{c, s, cluster}, nil
}

// Check checks resources for a cluster, as [manifestwork.Connectors.Check] does.
func (s *Spokes) Check(ctx context.Context, cluster string, resources []appcontext.Resource) error {
	connectors, err := manifestwork.New(s.Clientset().WorkV1(), manifestwork.Options{Config: configOf})
	if err != nil {
		return err
	}
	return connectors.Check(ctx, appcontext.ClusterID{Name: cluster}, resources)
}

// configOf requests the values that the connector needs, and those that the health needs.
func configOf(o appcontext.Object) *workv1.ManifestConfigOption {
	return workhealth.Config(workhealth.Object(o), manifestwork.DefaultConfig(o))
}

// state is the function for manifestwork.Options, for one cluster: a healthy object of a kind that is
// not built in is ready.
func (s *Spokes) state(cluster string) func(*connector.State, workv1.ManifestCondition) {
	return func(state *connector.State, c workv1.ManifestCondition) {
		if !state.Ready {
			return
		}
		if ready, why := s.Health.Ready(cluster, workhealth.Object(state.Object), &c); !ready {
			state.Ready, state.Message = false, why
		}
	}
}

// watching also notifies the engine when the health of an object becomes known or changes.
type watching struct {
	connector.Connector
	spokes  *Spokes
	cluster string
}

// WatchStatus implements [connector.StatusWatcher].
func (w *watching) WatchStatus(ctx context.Context, changed func()) error {
	defer w.spokes.Health.OnChange(w.cluster, changed)()
	return w.Connector.(connector.StatusWatcher).WatchStatus(ctx, changed)
}

// Missing reports whether an installed object of an application is in no work, or is different
// there: the file of works was lost, or is outdated.
func (s *Spokes) Missing(ctx context.Context, content *revisions.Content) (bool, error) {
	if !s.Health.Synced(ctx) {
		return false, ctx.Err()
	}
	for id, resource := range appcontext.Resources(content.Apps) {
		current := s.Health.Manifest(id.Cluster.Name, workhealth.Object(id.Object))
		if resource.Installed() && !same(resource.Manifest, []byte(current)) {
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
