// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"strings"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// State is the function for manifestwork.Options, for one cluster. An object with an interpreter
// other than the native one is ready when that interpreter reports it as healthy.
func (t *Tracker) State(cluster string) func(*connector.State, workv1.ManifestCondition) {
	return func(s *connector.State, condition workv1.ManifestCondition) {
		if !s.Ready {
			return
		}
		v, known := t.verdict(cluster, s.Object)
		switch {
		case !known || v.manifest == "" || v.report != reportOf(&condition):
			s.Ready, s.Message = false, "its interpreter has not answered yet" // Watching reports the result
		case v.interpreted && v.Health != Healthy:
			s.Ready, s.Message = false, "its interpreter reports that it is "+strings.ToLower(string(v.Health))
		}
	}
}

func (t *Tracker) verdict(cluster string, o appcontext.Object) (v Verdict, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, known := t.places[appcontext.Identity{Cluster: document.ClusterID(cluster), Object: o}]
	if known {
		v = t.works[at.key].verdicts[at.index]
	}
	return v, known
}

// Watching returns a connector of a cluster that also notifies the engine when the health of an
// object becomes known or changes.
func (t *Tracker) Watching(cluster string, c connector.Connector) connector.Connector {
	return &watching{c, t, cluster}
}

type watching struct {
	connector.Connector
	tracker *Tracker
	cluster string
}

// WatchStatus implements [connector.StatusWatcher].
func (w *watching) WatchStatus(ctx context.Context, changed func()) error {
	defer w.tracker.watch(w.cluster, changed)()
	return w.Connector.(connector.StatusWatcher).WatchStatus(ctx, changed)
}

// watch registers a function that is called on changes of a cluster, until end is called.
func (t *Tracker) watch(cluster string, changed func()) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers[cluster] == nil {
		t.watchers[cluster] = map[*func()]bool{}
	}
	t.watchers[cluster][&changed] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.watchers[cluster], &changed); len(t.watchers[cluster]) == 0 {
			delete(t.watchers, cluster)
		}
	}
}
