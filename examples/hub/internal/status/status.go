// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package status has the state of the hub as data: what the page shows, the HTTP API returns as
// JSON, and the metrics count.
//
// The words are those of Argo CD. [Sync] compares the cluster with the wanted revision, [Health]
// describes the objects. The health of an application on a cluster is the worst of its objects, and
// the health of an application is the worst of its clusters. A cluster has a health of its own: it
// does not depend on the applications there.
package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sync is whether a cluster has the wanted revision.
type Sync string

// The values of [Sync].
const (
	Synced      Sync = "Synced"    // the agent has applied the wanted revision
	OutOfSync   Sync = "OutOfSync" // it has not yet, or cannot
	SyncUnknown Sync = "Unknown"   // there is no current report
)

// Health is the health of an object, and of all that contains it.
type Health string

// The values of [Health], the worst last.
const (
	Healthy     Health = "Healthy"
	Suspended   Health = "Suspended"   // it waits for a person: it is paused, or needs an approval
	Progressing Health = "Progressing" // it is not healthy yet, and may still become healthy
	Unknown     Health = "Unknown"     // there is no current report
	Missing     Health = "Missing"     // it does not exist
	Degraded    Health = "Degraded"    // it has failed, or has not become healthy in time
)

// Healths are all values of [Health], the worst last.
var Healths = []Health{Healthy, Suspended, Progressing, Unknown, Missing, Degraded}

// Rank orders healths: the worst has the greatest rank.
func (h Health) Rank() int { return slices.Index(Healths, h) }

// Status is the state of something, with its reason.
type Status struct {
	Sync   Sync   `json:"sync"`
	Health Health `json:"health"`
	// Reason explains the state, in a sentence or two.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began, or zero.
	Since time.Time `json:"since,omitzero"`
}

// Counts is the number of members with each health.
type Counts map[Health]int

// Total returns the number of all members.
func (c Counts) Total() (n int) {
	for _, of := range c {
		n += of
	}
	return n
}

// String returns the numbers in words, the worst first: "1 Degraded · 2 Healthy".
func (c Counts) String() string {
	var parts []string
	for _, h := range slices.Backward(Healths) {
		if n := c[h]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h))
		}
	}
	return strings.Join(parts, " · ")
}

// Over returns the status of a group with these counts of members: the worse health counts.
// why is the reason of the first of the worst members.
func (s Status) Over(c Counts, noun, why string) Status {
	worst := Healthy
	for _, h := range Healths {
		if c[h] > 0 {
			worst = h
		}
	}
	if worst.Rank() <= s.Health.Rank() {
		return s
	}
	s.Health, s.Since = worst, time.Time{}
	verb := "are"
	if c[worst] == 1 {
		verb = "is"
	}
	reason := fmt.Sprintf("%d of %d %s %s %s: %s", c[worst], c.Total(), noun, verb, worst, strings.TrimSuffix(why, ": "))
	s.Reason = strings.TrimSuffix(reason+"; "+s.Reason, "; ")
	return s
}

// Hub is the state of a hub. Lists are sorted by name.
type Hub struct {
	// Links are the connections that the hub needs.
	Links        []Link        `json:"links"`
	Documents    Documents     `json:"documents"`
	Applications []Application `json:"applications"`
	Clusters     []Cluster     `json:"clusters"`
	// Unclaimed are works with objects that no application has.
	Unclaimed []Unclaimed `json:"unclaimed"`
}

// Down returns the links that are down.
func (h *Hub) Down() []Link {
	return slices.DeleteFunc(slices.Clone(h.Links), func(l Link) bool { return l.Up })
}

// Link is a connection of the hub: to the broker, the agents, the database or the leader.
type Link struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Up      bool   `json:"up"`
	// Reason is why it is down.
	Reason string `json:"reason,omitempty"`
}

// NewLink returns a link that is up if err is nil.
func NewLink(name, address string, err error) Link {
	l := Link{Name: name, Address: address, Up: err == nil}
	if err != nil {
		l.Reason = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return l
}

// Documents is the source of applications and placements.
type Documents struct {
	// Origin is the folder, or the HTTP API.
	Origin string `json:"origin"`
	// Accepted is when the current documents were accepted.
	Accepted time.Time `json:"accepted,omitzero"`
	// Refused is why newer documents were refused. The previous ones stay in effect.
	Refused string `json:"refused,omitempty"`
	// Notice is another problem, with the remedy.
	Notice string `json:"notice,omitempty"`
}

// Application is one application.
type Application struct {
	Name string `json:"name"`
	// Revision is the wanted revision.
	Revision string `json:"revision,omitempty"`
	Status
	// Held is the revision of a rollback, which stays until the document changes; 0 without one.
	Held    int      `json:"held,omitempty"`
	Rollout *Rollout `json:"rollout,omitempty"`
	// On counts the clusters that have the application, get it, or are removing it.
	On Counts `json:"on"`
	// Placements and Revisions are only in the status of one application.
	Placements []Placement `json:"clusters,omitempty"`
	Revisions  []Revision  `json:"revisions,omitempty"`
}

// Rollout is the progress of the rollout of an application.
type Rollout struct {
	Status string `json:"status"`
	// Waiting is why no further cluster starts.
	Waiting string         `json:"waiting,omitempty"`
	Paused  bool           `json:"paused,omitempty"`
	Aborted bool           `json:"aborted,omitempty"`
	Groups  []RolloutGroup `json:"groups"`
}

// RolloutGroup has the numbers of clusters of a group. The last one may have no name.
type RolloutGroup struct {
	Name       string `json:"name,omitempty"`
	Clusters   int    `json:"clusters"`
	InProgress int    `json:"inProgress"`
	Succeeded  int    `json:"succeeded"`
	Failed     int    `json:"failed"`
}

// Placement is an application on a cluster.
type Placement struct {
	Application string `json:"application"`
	Cluster     string `json:"name"`
	// Revision is the revision on the cluster.
	Revision string `json:"revision,omitempty"`
	Status
}

// Revision is an entry of the history: a revision of an application, or an action of a user, which has
// no number. It has no hash of its source: the source may contain weak secrets, which the hash would
// allow to guess.
type Revision struct {
	Application string    `json:"application,omitempty"`
	Cluster     string    `json:"cluster,omitempty"` // of an action
	Number      int       `json:"number,omitempty"`
	Before      int       `json:"before,omitempty"` // the previous revision that is stored
	Cause       string    `json:"cause"`
	Created     time.Time `json:"created"`
	// By is the user who made the change. It is empty for documents of a folder, and for objects that
	// templates have read.
	By       string `json:"by,omitempty"`
	Clusters int    `json:"clusters"`
}

// Change is a difference between two revisions of an application. Values are texts, and empty if the
// field does not exist.
type Change struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Connection is the state of the connection of an agent.
type Connection string

// The values of [Connection].
const (
	Connected Connection = "Connected"
	// Silent means that the agent has sent no message for some time, although it should.
	Silent Connection = "Silent"
	// NeverJoined means that no agent of the cluster is known to have ever connected.
	NeverJoined Connection = "NeverJoined"
)

// Cluster is one cluster.
type Cluster struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Status
	// Agent is the connection of its agent, and LastHeard when its last message arrived, to the minute.
	Agent     Connection `json:"agent"`
	LastHeard time.Time  `json:"lastHeard,omitzero"`
	// Undocumented is whether no document names the cluster.
	Undocumented bool `json:"undocumented,omitempty"`
	// On counts the applications that it has, gets, or removes.
	On Counts `json:"on"`
	// Placements and Works are only in the status of one cluster.
	Placements []Placement `json:"applications,omitempty"`
	Works      []Work      `json:"works,omitempty"`
}

// Work is one ManifestWork. Cluster and name together are unique.
type Work struct {
	Cluster     string             `json:"cluster"`
	Name        string             `json:"name"`
	Application string             `json:"application,omitempty"`
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
	Objects     []Object           `json:"objects"`
}

// Object is one object of a work on its cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Status
}

// Unclaimed is a work with objects that no application has.
type Unclaimed struct {
	Cluster string `json:"cluster"`
	Work    string `json:"work"`
	// Application is the application that the work was created for.
	Application string   `json:"application,omitempty"`
	Objects     []string `json:"objects"`
}
