// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// rolloutRecord is the stored part of a rollout. Callers change it, and the engine that owns the
// context reads it.
type rolloutRecord struct {
	Rollout
	Paused   bool       `json:"paused,omitempty"`
	Aborted  bool       `json:"aborted,omitempty"`
	Approved []Approval `json:"approved,omitempty"`
	// Ended is the progress of the groups at the end of the event. Later events overwrite the
	// statuses of apps.
	Ended []RolloutGroupStatus `json:"ended,omitempty"`
}

// order decides which clusters of a rollout begin, from the stored record and the stored statuses
// of apps. It counts clusters as they change, so the cost of a decision does not grow with all
// clusters.
type order struct {
	record      rolloutRecord
	groups      []*orderGroup
	clusters    map[appcontext.ClusterID]*orderCluster
	maxFailures int
}

type orderGroup struct {
	RolloutGroup
	clusters    []*orderCluster
	limit       int
	maxFailures int // -1 for no limit

	count [clusterPhases]int // clusters by phase
	begun bool               // a cluster has begun
	ended time.Time          // when its last app ended
	next  int                // all clusters before it have begun or ended
}

// orderCluster is the progress of a cluster. A cluster without apps has succeeded.
//
// A cluster begins with all of its apps, even if the begin of some apps is not stored yet.
type orderCluster struct {
	group   *orderGroup
	tasks   []*task
	since   time.Time // when it began; zero before
	failed  bool
	refused bool // an app failed before it began
	left    int  // apps that have not ended
}

// clusterPhase is derived from the other fields of a cluster.
type clusterPhase int

const (
	clusterWaiting clusterPhase = iota
	clusterInProgress
	clusterSucceeded
	clusterFailed
	clusterRefused // it ended before it began: the rollout had halted
	clusterPhases
)

func (c *orderCluster) phase() clusterPhase {
	switch {
	case c.left > 0 && !c.since.IsZero():
		return clusterInProgress
	case c.failed:
		return clusterFailed
	case c.left > 0:
		return clusterWaiting
	case c.refused:
		return clusterRefused
	default:
		return clusterSucceeded
	}
}

// newOrder arranges the clusters of the event, which are in the order of its context.
func newOrder(record rolloutRecord, clusters []appcontext.ClusterID) *order {
	o := &order{record: record, clusters: make(map[appcontext.ClusterID]*orderCluster, len(clusters))}
	for _, g := range record.Groups {
		o.addGroup(g)
	}
	rest := slices.DeleteFunc(slices.Clone(clusters), func(c appcontext.ClusterID) bool { return o.clusters[c] != nil })
	if len(rest) > 0 || len(o.groups) == 0 {
		o.addGroup(RolloutGroup{Clusters: rest})
	}
	o.maxFailures = number(record.MaxFailures, len(clusters), 0)
	return o
}

func (o *order) addGroup(spec RolloutGroup) {
	n := len(spec.Clusters)
	g := &orderGroup{RolloutGroup: spec, maxFailures: number(spec.MaxFailures, n, -1)}
	g.limit = max(number(cmp.Or(spec.MaxConcurrency, o.record.MaxConcurrency), n, n), 1)
	for _, id := range spec.Clusters {
		c := &orderCluster{group: g}
		o.clusters[id] = c
		g.clusters = append(g.clusters, c)
		g.count[c.phase()]++
	}
	o.groups = append(o.groups, g)
}

// number is scaled for a validated limit.
func number(limit string, total, otherwise int) int {
	n, err := scaled(limit, total, otherwise)
	if err != nil {
		return 0
	}
	return n
}

// change changes a cluster, and the counts of its group with it.
func (c *orderCluster) change(change func()) {
	c.group.count[c.phase()]--
	change()
	c.group.count[c.phase()]++
}

// begin records when the cluster began. The earliest time counts.
func (c *orderCluster) begin(at time.Time) {
	c.change(func() { c.since = earlier(c.since, at) })
	c.group.begun = true
}

func (c *orderCluster) end(end Phase, begun bool, at time.Time) {
	c.change(func() {
		c.left--
		c.failed = c.failed || end == PhaseFailed && begun
		c.refused = c.refused || end == PhaseFailed && !begun
	})
	if at.After(c.group.ended) {
		c.group.ended = at
	}
}

// add adds an app with its stored status, which is nil if there is no status.
func (c *orderCluster) add(s *ClusterStatus) {
	c.change(func() { c.left++ })
	if s == nil {
		return
	}
	if !s.Begun.IsZero() {
		c.begin(s.Begun)
	}
	if s.Phase.final() {
		c.end(s.Phase, !s.Begun.IsZero(), s.Time)
	}
}

// waiting returns the first clusters that have not begun, n at most.
func (g *orderGroup) waiting(n int) []*orderCluster {
	for g.next < len(g.clusters) && g.clusters[g.next].phase() != clusterWaiting {
		g.next++
	}
	var out []*orderCluster
	for i := g.next; i < len(g.clusters) && len(out) < n; i++ {
		if c := g.clusters[i]; c.phase() == clusterWaiting {
			out = append(out, c)
		}
	}
	return out
}

func (o *order) statuses() []RolloutGroupStatus {
	var out []RolloutGroupStatus
	for _, g := range o.groups {
		out = append(out, RolloutGroupStatus{
			Name: g.Name, Clusters: len(g.clusters),
			InProgress: g.count[clusterInProgress], Failed: g.count[clusterFailed], Succeeded: g.count[clusterSucceeded],
		})
	}
	return out
}

// verdict is a decision of an order.
type verdict struct {
	begin []*orderCluster
	halt  Reason // the reason why no further cluster will begin, or empty
	// waits is the reason why no cluster begins now. It is empty if the group only waits for
	// clusters in progress.
	waits  string
	needs  *Approval // the approval that it waits for, or nil
	until  time.Time // when waits ends by itself, or zero
	passed bool      // the rollout has passed all groups and gates
}

// decide returns the clusters that may begin now, or the reason why no cluster may.
func (o *order) decide(now time.Time) verdict {
	if o.record.Aborted {
		return verdict{halt: ReasonAborted, waits: "the rollout was aborted"}
	}
	failed := 0
	for _, g := range o.groups {
		n := g.count[clusterFailed]
		failed += n
		if g.maxFailures >= 0 && n > g.maxFailures {
			why := fmt.Sprintf("failed clusters in group %q: %d, and its MaxFailures is %d", g.Name, n, g.maxFailures)
			return verdict{halt: ReasonMaxFailures, waits: why}
		}
	}
	if failed > o.maxFailures {
		why := fmt.Sprintf("failed clusters: %d, and MaxFailures is %d", failed, o.maxFailures)
		return verdict{halt: ReasonMaxFailures, waits: why}
	}
	for _, g := range o.groups {
		if v, passed := o.decideGroup(g, now); !passed {
			return v
		}
	}
	return verdict{passed: true}
}

// decideGroup returns the verdict for a group, and true if the rollout has passed the group.
func (o *order) decideGroup(g *orderGroup, now time.Time) (verdict, bool) {
	running, waiting := g.count[clusterInProgress], g.count[clusterWaiting]
	switch over := g.ended.Add(g.Wait); {
	case !g.begun && g.ApproveBefore && !o.approved(g, GateBeforeGroup):
		why := fmt.Sprintf("group %q waits for an approval before it begins", g.Name)
		return verdict{waits: why, needs: &Approval{g.Name, GateBeforeGroup}}, false
	case o.record.Paused && running+waiting > 0:
		return verdict{waits: "the rollout is paused"}, false
	case waiting > 0:
		return verdict{begin: g.waiting(max(g.limit-running, 0))}, false
	case running > 0:
		return verdict{}, false
	case g.Wait > 0 && now.Before(over):
		why := fmt.Sprintf("the rollout waits until %s after group %q", over.Format(time.RFC3339), g.Name)
		return verdict{waits: why, until: over}, false
	case g.ApproveAfter && !o.approved(g, GateAfterGroup):
		why := fmt.Sprintf("the rollout waits for an approval after group %q", g.Name)
		return verdict{waits: why, needs: &Approval{g.Name, GateAfterGroup}}, false
	}
	return verdict{}, true
}

func (o *order) approved(g *orderGroup, gate Gate) bool {
	return slices.Contains(o.record.Approved, Approval{g.Name, gate})
}
