// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// watched follows the stored statuses of a rollout. When a cluster begins, it checks the clusters
// in progress, the order of the groups and the failures against the limits.
type watched struct {
	t        *testing.T
	spec     rsync.Rollout
	seq      uint64
	apps     int // on each cluster
	clusters []appcontext.ClusterID
	statuses map[appcontext.ClusterID]map[string]rsync.ClusterStatus // by app
	mu       sync.Mutex
}

// follow starts a watch, and returns a function that waits for its end. It returns after the watch
// has begun: the first items of a watch are in the order of their keys. They do not show which
// cluster failed before another cluster began.
func (w *watched) follow(ctx context.Context, e *rsync.Engine, ref rsync.EventRef) func() {
	w.seq, w.statuses = ref.Seq, map[appcontext.ClusterID]map[string]rsync.ClusterStatus{}
	for _, c := range w.clusters {
		w.statuses[c] = map[string]rsync.ClusterStatus{}
	}
	done, begun := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer close(done)
		defer begin()
		for c, err := range e.Watch(ctx, ref.AppContextID, 0) {
			begin()
			if err != nil {
				w.t.Errorf("watch: %v", err)
				return
			}
			if c.Cluster != nil && c.Cluster.Seq == w.seq {
				w.saw(*c.Cluster)
			}
			if c.Element != nil && c.Element.Seq == w.seq && c.Element.Status.Final() {
				return
			}
		}
	}()
	<-begun
	return func() { <-done }
}

// saw records a status. The statuses of one transaction arrive one after another, ends before
// begins.
func (w *watched) saw(s rsync.ClusterStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _, _ := w.progress(s.Cluster)
	w.statuses[s.Cluster][s.App] = s
	if begun, _, _ := w.progress(s.Cluster); begun && !before {
		w.begins(s.Cluster)
	}
}

// progress reports whether an app on a cluster has begun, whether all apps have ended, and whether
// they ended with a failure.
func (w *watched) progress(c appcontext.ClusterID) (begun, ended, failed bool) {
	final := 0
	for _, s := range w.statuses[c] {
		begun = begun || !s.Begun.IsZero()
		failed = failed || s.Phase == rsync.PhaseFailed && !s.Begun.IsZero()
		if s.Phase == rsync.PhaseDone || s.Phase == rsync.PhaseSkipped || s.Phase == rsync.PhaseFailed {
			final++
		}
	}
	ended = final == w.apps
	return begun, ended, failed && ended
}

func (w *watched) begins(cluster appcontext.ClusterID) {
	failed := 0
	for c := range w.statuses {
		if _, _, fails := w.progress(c); fails {
			failed++
		}
	}
	if most := count(w.spec.MaxFailures, len(w.clusters), 0); failed > most {
		w.t.Errorf("%s begins when %d clusters have failed, and %d may", cluster, failed, most)
	}
	for _, g := range w.groups() {
		at := slices.Index(g.Clusters, cluster)
		if at < 0 {
			for _, c := range g.Clusters {
				if _, ended, _ := w.progress(c); !ended {
					w.t.Errorf("%s begins before %s of an earlier group has ended", cluster, c)
				}
			}
			continue
		}
		running := 0
		for _, c := range g.Clusters {
			if begun, ended, _ := w.progress(c); begun && !ended {
				running++
			}
		}
		if most := max(count(cmp.Or(g.MaxConcurrency, w.spec.MaxConcurrency), len(g.Clusters), len(g.Clusters)),
			1); running > most {
			w.t.Errorf("%s begins, and %d clusters are in progress where %d may be", cluster, running, most)
		}
		return
	}
}

// groups returns the groups of the rollout. The last group has the clusters in no group.
func (w *watched) groups() []rsync.RolloutGroup {
	out := slices.Clone(w.spec.Groups)
	rest := slices.DeleteFunc(slices.Clone(w.clusters), func(c appcontext.ClusterID) bool {
		return slices.ContainsFunc(w.spec.Groups, func(g rsync.RolloutGroup) bool { return slices.Contains(g.Clusters, c) })
	})
	return append(out, rsync.RolloutGroup{Clusters: rest})
}

func count(limit string, total, otherwise int) int {
	if limit == "" {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimSuffix(limit, "%"))
	if err != nil {
		panic(err)
	}
	if strings.HasSuffix(limit, "%") {
		return n * total / 100
	}
	return n
}
