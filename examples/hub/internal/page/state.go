// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hub is what the page shows the state of.
type Hub interface {
	// State returns the state as it is now. Calls come one at a time. The page only reads what it gets, and keeps it
	// until the next call: the hub must not change it later.
	State() State
}

// HubFunc is a function as a [Hub].
type HubFunc func() State

// State calls f.
func (f HubFunc) State() State { return f() }

// State is everything that the page shows. Lists may be in any order: the page sorts by name.
type State struct {
	Input        Input
	Clusters     []Cluster
	Applications []Application
	Works        []Work
	// Unclaimed are works with objects that no application has.
	Unclaimed []Unclaimed
}

// Input is where applications and placements come from.
type Input struct {
	// Origin names it, such as the directory.
	Origin string
	// Taken is when what now counts was read.
	Taken time.Time
	// Error says why something newer was refused. It is empty when what counts is what is there.
	Error string
	// Notice is what else is wrong, and what to do. It may be empty.
	Notice string
}

// Tone is how a status is to be taken.
type Tone string

// The tones. Any other is taken for Unknown.
const (
	Unknown Tone = ""
	Good    Tone = "good"
	Busy    Tone = "busy" // on its way
	Bad     Tone = "bad"
)

// Status is a state in a word.
type Status struct {
	Tone Tone
	// Word is the state, such as "Applied".
	Word string
	// Reason says more, in a sentence or two.
	Reason string
	// Since is when it became so. Zero shows nothing.
	Since time.Time
}

// Cluster is one cluster. Its name is unique.
type Cluster struct {
	Name   string
	Labels map[string]string
	Status Status
	// Heard is when something was last heard of it. Zero shows nothing.
	Heard time.Time
}

// Application is one application. Its name is unique.
type Application struct {
	Name string
	// Revision is the one that is wanted.
	Revision string
	Status   Status
	// Rollout is how far its rollout is; nil without one.
	Rollout *Rollout
	// Placements has one for each cluster on which the application is, shall be, or no longer shall be.
	Placements []Placement
}

// Rollout is how far an application is on its way over clusters.
type Rollout struct {
	Status string `json:"status"`
	// Waiting is why no further cluster begins.
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
	// Revision is the one that is there.
	Revision string
	Status   Status
}

// Work is one ManifestWork. Cluster and name together are unique.
type Work struct {
	Cluster, Name string
	// Application is the one that it is part of.
	Application string
	Conditions  []metav1.Condition
	Objects     []Object
}

// Object is one object of a work on its cluster.
type Object struct {
	Kind, Namespace, Name string
	Health                Status
}

// Unclaimed is a work of which some objects, or all, are of no application.
type Unclaimed struct {
	Cluster, Work string
	// Application is the one that it was made for.
	Application string
	Objects     []string
}
