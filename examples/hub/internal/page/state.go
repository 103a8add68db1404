// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hub provides the state that the page shows.
type Hub interface {
	// State returns the current state. Calls are not concurrent. The page reads the result until
	// the next call: the hub must not change it.
	State() State
}

// State is the content of the page. Lists may be in any order: the page sorts by name. The HTTP API
// returns clusters, applications and unclaimed works as JSON.
type State struct {
	Input        Input
	Clusters     []Cluster
	Applications []Application
	Works        []Work
	// Unclaimed are works with objects that no application has.
	Unclaimed []Unclaimed
}

// Input is the source of applications and placements.
type Input struct {
	// Origin is the name of the source, for example the directory.
	Origin string
	// Taken is when the current input was accepted.
	Taken time.Time
	// Error is why a newer input was refused. It is empty if the current input is the newest.
	Error string
	// Notice is another problem, with the remedy. It may be empty.
	Notice string
}

// Tone classifies a status.
type Tone string

// The tones. Any other value is Unknown.
const (
	Unknown Tone = ""
	Good    Tone = "good"
	Busy    Tone = "busy" // in progress
	Bad     Tone = "bad"
)

// Status is a state, with its reason.
type Status struct {
	Tone Tone `json:"-"`
	// Word is the state, such as "Applied".
	Word string `json:"status"`
	// Reason explains the state, in a sentence or two.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began. Zero shows nothing.
	Since time.Time `json:"-"`
}

// Cluster is one cluster. Its name is unique.
type Cluster struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"-"`
	Status
	// LastReport is when the last message of the cluster arrived, in UTC. Zero shows nothing.
	LastReport time.Time `json:"heard,omitzero"`
}

// Application is one application. Its name is unique.
type Application struct {
	Name string `json:"name"`
	// Revision is the wanted revision.
	Revision string `json:"revision,omitempty"`
	Status
	// Rollout is the progress of its rollout; nil without one.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Placements has an entry for each cluster that the application is on, will be on, or is being
	// removed from.
	Placements []Placement `json:"clusters"`
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
	Cluster string
	// Revision is the revision on the cluster.
	Revision string
	Status   Status
}

// MarshalJSON implements [json.Marshaler].
func (p Placement) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name     string `json:"name"`
		Revision string `json:"revision,omitempty"`
		Health   string `json:"health"`
		Reason   string `json:"reason,omitempty"`
	}{p.Cluster, p.Revision, p.Status.Word, p.Status.Reason})
}

// Work is one ManifestWork. Cluster and name together are unique.
type Work struct {
	Cluster, Name string
	// Application is the application of the work.
	Application string
	Conditions  []metav1.Condition
	Objects     []Object
}

// Object is one object of a work on its cluster.
type Object struct {
	Kind, Namespace, Name string
	Health                Status
}

// Unclaimed is a work with objects that no application has.
type Unclaimed struct {
	Cluster string `json:"cluster"`
	Work    string `json:"work"`
	// Application is the application that the work was created for.
	Application string   `json:"application,omitempty"`
	Objects     []string `json:"objects"`
}
