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

	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync"
)

type (
	// Sync is whether a cluster has the wanted revision.
	Sync = workhealth.Sync
	// Health is the health of an object, and of all that contains it.
	Health = workhealth.Health
	// Status is the state of something, with its reason.
	Status = workhealth.Status
	// Counts is the number of members with each health.
	Counts = workhealth.Counts
)

// The values of [Sync] and [Health].
const (
	Synced      = workhealth.SyncSynced
	OutOfSync   = workhealth.SyncOutOfSync
	SyncUnknown = workhealth.SyncUnknown

	Healthy     = workhealth.HealthHealthy
	Suspended   = workhealth.HealthSuspended
	Progressing = workhealth.HealthProgressing
	Unknown     = workhealth.HealthUnknown
	Missing     = workhealth.HealthMissing
	Degraded    = workhealth.HealthDegraded
)

// Healths are all values of [Health], the worst last.
var Healths = workhealth.Healths()

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
	// Waiting is why no further cluster starts, and Needs the approval that it waits for, or nil.
	Waiting string          `json:"waiting,omitempty"`
	Needs   *rsync.Approval `json:"needs,omitempty"`
	Paused  bool            `json:"paused,omitempty"`
	Aborted bool            `json:"aborted,omitempty"`
	Groups  []RolloutGroup  `json:"groups"`
}

// Suspended reports whether the rollout waits for a person.
func (r *Rollout) Suspended() bool { return r != nil && (r.Paused || r.Needs != nil) }

// Control is a change of an application that a person requests.
type Control struct {
	Verb Verb
	// Approval is the gate that Approve opens.
	Approval rsync.Approval
	// Revision is the revision of Rollback; 0 is the previous one.
	Revision int
}

// String returns the change in a few words.
func (c Control) String() string {
	switch {
	case c.Verb == Approve:
		return fmt.Sprintf("approve %s of %s", c.Approval.Gate, c.Approval.Group)
	case c.Verb == Rollback && c.Revision > 0:
		return fmt.Sprintf("rollback to %d", c.Revision)
	}
	return string(c.Verb)
}

// Verb is the kind of a [Control].
type Verb string

// The values of [Verb].
const (
	Approve  Verb = "approve"  // open a gate of the rollout
	Pause    Verb = "pause"    // start no further cluster
	Resume   Verb = "resume"   // end a pause, or start a failed or aborted rollout again
	Abort    Verb = "abort"    // end the rollout
	Rollback Verb = "rollback" // roll back to a revision, and hold it
	Release  Verb = "release"  // end the hold
)

// RolledBack is the result of a rollback.
type RolledBack struct {
	Revision int `json:"revision"`
	// Note is a remark for the user, or empty.
	Note string `json:"note,omitempty"`
}

// Revocation is the result of a revocation.
type Revocation struct {
	// Note is a remark for the user, or empty.
	Note string `json:"note,omitempty"`
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

// Action is what a request does to a document, or to an object.
type Action string

// The values of [Action].
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Unchanged Action = "unchanged"
	Deleted   Action = "deleted"
)

// DocumentChange is what a request changes in a document.
type DocumentChange struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Action  Action   `json:"action"`
	Changes []Change `json:"changes,omitempty"`
}

// Plan is what documents would change.
type Plan struct {
	Documents []DocumentChange `json:"documents"`
	// Applications are those with a change or a problem.
	Applications []PlannedApplication `json:"applications"`
}

// PlannedApplication has the objects that would change.
type PlannedApplication struct {
	Name string `json:"name"`
	// Problem is why the application would stay unchanged, or keep earlier values.
	Problem string          `json:"problem,omitempty"`
	Objects []PlannedObject `json:"objects,omitempty"`
	// More is the number of further objects.
	More int `json:"more,omitempty"`
}

// PlannedObject is an object that would change on some clusters. It has no values: they may be secret.
type PlannedObject struct {
	Object   string   `json:"object"`
	Action   Action   `json:"action"`
	Clusters []string `json:"clusters"`
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
	// Revoked means that the certificates of the cluster are revoked, and the hub refuses its agent.
	Revoked Connection = "Revoked"
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
