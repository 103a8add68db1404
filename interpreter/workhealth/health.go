// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Sync is whether a cluster has the desired state.
type Sync string

// The values of [Sync].
const (
	SyncSynced    Sync = "Synced"    // the agent has applied the desired state
	SyncOutOfSync Sync = "OutOfSync" // it has not yet, or cannot
	SyncUnknown   Sync = "Unknown"   // there is no current report
)

// Health is the health of an object or of a group.
type Health string

// The values of [Health], the worst last.
const (
	HealthHealthy     Health = "Healthy"
	HealthSuspended   Health = "Suspended"   // it waits for a person: it is paused, or needs an approval
	HealthProgressing Health = "Progressing" // it is not healthy yet, and may still become healthy
	HealthUnknown     Health = "Unknown"     // there is no current report
	HealthMissing     Health = "Missing"     // it does not exist
	HealthDegraded    Health = "Degraded"    // it has failed, or has not become healthy in time
)

var healths = []Health{
	HealthHealthy, HealthSuspended, HealthProgressing, HealthUnknown, HealthMissing, HealthDegraded,
}

// Healths returns all values of [Health], the worst last.
func Healths() []Health { return slices.Clone(healths) }

// Rank orders healths: the worst has the greatest rank. The rank of an invalid value is -1.
func (h Health) Rank() int { return slices.Index(healths, h) }

// Status is the state of an object or of a group, with its reason.
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
	for _, h := range slices.Backward(healths) {
		if n := c[h]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h))
		}
	}
	return strings.Join(parts, " · ")
}

// Over returns the status of a group with a status of its own and these counts of members: the worse
// health counts. The noun names members, and why is the reason of the first of the worst members.
func (s Status) Over(c Counts, noun, why string) Status {
	worst := HealthHealthy
	for _, h := range healths {
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

// Object identifies an object on a cluster.
type Object struct{ Group, Kind, Namespace, Name string }

// String returns group/kind namespace/name, without empty parts.
func (o Object) String() string {
	path := func(a, b string) string { return strings.TrimPrefix(a+"/"+b, "/") }
	return path(o.Group, o.Kind) + " " + path(o.Namespace, o.Name)
}

// ObjectStatus is the status of an object in a work.
type ObjectStatus struct {
	Object Object
	Status

	evaluated   bool   // by an interpreter
	manifest    string // that was evaluated
	report      report
	degraded    bool // by its agent
	interpreted bool // not by the native kinds
	healthy     bool // by its interpreter
}

// ProgressDeadline is the usual deadline of [ObjectStatus.At].
const ProgressDeadline = 5 * time.Minute

// At returns the status at a time: an object that is Progressing for longer than the deadline is
// Degraded.
func (o *ObjectStatus) At(now time.Time, deadline time.Duration) Status {
	s := o.Status
	if s.Health == HealthProgressing && now.Sub(s.Since) > deadline {
		s.Health = HealthDegraded
		s.Reason = strings.TrimPrefix(s.Reason+", for longer than "+duration.HumanDuration(deadline), ", ")
	}
	return s
}
