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

// rolloutRecord is what is stored of a rollout. Callers change it, the engine that works on the event
// reads it.
type rolloutRecord struct {
	Rollout
	Paused   bool       `json:"paused,omitempty"`
	Aborted  bool       `json:"aborted,omitempty"`
	Approved []Approval `json:"approved,omitempty"`
}

// order decides which clusters of a rollout begin. All that it decides follows from what is stored: the
// record, and the statuses of apps on clusters.
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
}

type orderCluster struct {
	tasks   []*task
	begun   bool
	failed  bool
	refused bool      // it failed before it began
	left    int       // apps that have not ended
	ended   time.Time // when the last one did
}

// newOrder arranges clusters, which are those of the event in the order of its context.
func newOrder(record rolloutRecord, clusters []appcontext.ClusterID) *order {
	o := &order{record: record, clusters: make(map[appcontext.ClusterID]*orderCluster, len(clusters))}
	for _, c := range clusters {
		o.clusters[c] = &orderCluster{}
	}
	grouped := map[appcontext.ClusterID]bool{}
	add := func(spec RolloutGroup) {
		g := &orderGroup{RolloutGroup: spec, maxFailures: -1}
		for _, c := range spec.Clusters {
			grouped[c] = true
			g.clusters = append(g.clusters, o.clusters[c])
		}
		n := len(g.clusters)
		g.limit = max(number(cmp.Or(spec.MaxConcurrency, record.MaxConcurrency), n, n), 1)
		g.maxFailures = number(spec.MaxFailures, n, -1)
		o.groups = append(o.groups, g)
	}
	for _, g := range record.Groups {
		add(g)
	}
	rest := slices.DeleteFunc(slices.Clone(clusters), func(c appcontext.ClusterID) bool { return grouped[c] })
	if len(rest) > 0 || len(o.groups) == 0 {
		add(RolloutGroup{Clusters: rest})
	}
	o.maxFailures = number(record.MaxFailures, len(clusters), 0)
	return o
}

// number is scaled for a limit that was validated.
func number(limit string, total, otherwise int) int {
	n, err := scaled(limit, total, otherwise)
	if err != nil {
		return 0
	}
	return n
}

// reset forgets what was added.
func (o *order) reset() {
	for _, c := range o.clusters {
		*c = orderCluster{tasks: c.tasks}
	}
}

// add takes in how far an app on a cluster is.
func (o *order) add(cluster appcontext.ClusterID, begun time.Time, end Phase, ended time.Time) {
	c := o.clusters[cluster]
	if c == nil {
		return
	}
	c.begun = c.begun || !begun.IsZero()
	switch {
	case end.final():
		c.failed = c.failed || end == PhaseFailed && !begun.IsZero()
		c.refused = c.refused || end == PhaseFailed && begun.IsZero()
		if ended.After(c.ended) {
			c.ended = ended
		}
	default:
		c.left++
	}
}

func (g *orderGroup) count() RolloutGroupStatus {
	s := RolloutGroupStatus{Name: g.Name, Clusters: len(g.clusters)}
	for _, c := range g.clusters {
		switch {
		case c.left > 0 && c.begun:
			s.InProgress++
		case c.failed:
			s.Failed++
		case c.left > 0, c.refused:
		default:
			s.Succeeded++
		}
	}
	return s
}

// verdict is what an order decides at an instant.
type verdict struct {
	begin []*orderCluster
	// halt is why no cluster begins any more.
	halt Reason
	// waits is why none begins now, if it is not because of clusters in progress.
	waits string
	// until is when waits is over by itself; zero for when it is not.
	until time.Time
	// passed is whether all groups and gates are behind.
	passed bool
}

// decide returns which clusters may begin now.
func (o *order) decide(now time.Time) verdict {
	if o.record.Aborted {
		return verdict{halt: ReasonAborted, waits: "the rollout was aborted"}
	}
	failed := 0
	for _, g := range o.groups {
		n := g.count().Failed
		failed += n
		if g.maxFailures >= 0 && n > g.maxFailures {
			return verdict{halt: ReasonMaxFailures, waits: fmt.Sprintf("%d clusters of group %q failed, and its MaxFailures is %d", n, g.Name, g.maxFailures)}
		}
	}
	if failed > o.maxFailures {
		return verdict{halt: ReasonMaxFailures, waits: fmt.Sprintf("%d clusters failed, and MaxFailures is %d", failed, o.maxFailures)}
	}
	for _, g := range o.groups {
		if v, passed := o.decideGroup(g, now); !passed {
			return v
		}
	}
	return verdict{passed: true}
}

// decideGroup returns what a group waits for, or that the rollout has passed it.
func (o *order) decideGroup(g *orderGroup, now time.Time) (verdict, bool) {
	running, begun, last := 0, false, time.Time{}
	var waiting []*orderCluster
	for _, c := range g.clusters {
		begun = begun || c.begun
		switch {
		case c.left == 0:
			if c.ended.After(last) {
				last = c.ended
			}
		case c.begun:
			running++
		default:
			waiting = append(waiting, c)
		}
	}
	switch over := last.Add(g.Wait); {
	case !begun && g.ApproveBefore && !o.approved(g, BeforeGroup):
		return verdict{waits: fmt.Sprintf("group %q waits for an approval before it begins", g.Name)}, false
	case o.record.Paused && (running > 0 || len(waiting) > 0):
		return verdict{waits: "the rollout is paused"}, false
	case len(waiting) > 0:
		return verdict{begin: waiting[:min(len(waiting), max(g.limit-running, 0))]}, false
	case running > 0:
		return verdict{}, false
	case g.Wait > 0 && now.Before(over):
		return verdict{waits: fmt.Sprintf("the rollout waits until %s after group %q", over.Format(time.RFC3339), g.Name), until: over}, false
	case g.ApproveAfter && !o.approved(g, AfterGroup):
		return verdict{waits: fmt.Sprintf("the rollout waits for an approval after group %q", g.Name)}, false
	}
	return verdict{}, true
}

func (o *order) approved(g *orderGroup, gate Gate) bool {
	return slices.Contains(o.record.Approved, Approval{g.Name, gate})
}
