// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress shows the progress of works: a table that is redrawn in place on a terminal, and
// otherwise a line for each step.
//
// [Board] collects events in rows, and [Board.Table] and [Board.Line] return text. All three are
// plain functions of their input. [Console] writes the text.
package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is a step in the life of a work.
type Step int

// The steps, in their order. Waiting and Status may occur several times or never.
const (
	Sent     Step = iota // the hub wrote the work, or a new version of it
	Applied              // the agent has applied all its manifests
	Waiting              // the agent reported that it cannot apply all of them yet
	Reported             // the agent's report of success has reached the hub
	Status               // the agent reported values from the cluster
	Deleting             // the hub deleted the work
	Removed              // the agent has deleted the work's objects
	Gone                 // the work no longer exists on the hub
)

var stepNames = [...]string{"sent", "applied", "waiting", "reported", "status", "delete", "removed", "gone"}

// String returns the step's name in a line.
func (s Step) String() string { return stepNames[s] }

// Event is one step of one work on one cluster.
type Event struct {
	Step          Step
	Work, Cluster string
	// Generation is the version of the work.
	Generation int64
	At         time.Time
	// Detail is a short remark, such as a reason to wait.
	Detail string
}

// Row is the progress of one work on one cluster.
type Row struct {
	Work, Cluster string
	Generation    int64
	// Step is the last step. Applied and Reported replace Waiting.
	Step Step
	// Sent, Applied and Reported are the times of these steps of the current version, or of the
	// deletion. Zero means not yet.
	Sent, Applied, Reported time.Time
	// Note is the reason for Waiting, or the values from the cluster.
	Note string
}

// Board has the rows, by cluster and work. Use it from one goroutine at a time.
type Board struct {
	start time.Time
	rows  []*Row
}

// NewBoard returns an empty board. Times are shown relative to start.
func NewBoard(start time.Time) *Board { return &Board{start: start} }

// Rows returns copies of the rows in their order in the table.
func (b *Board) Rows() []Row {
	rows := make([]Row, len(b.rows))
	for i, r := range b.rows {
		rows[i] = *r
	}
	return rows
}

// Add adds an event. It returns false if nothing changed: the event is late or a duplicate.
func (b *Board) Add(e Event) bool {
	r := b.row(e.Work, e.Cluster)
	if e.Step >= Deleting {
		// A deletion concerns all versions, and may increase the generation.
		e.Generation = max(e.Generation, r.Generation)
	}
	if e.Generation < r.Generation || e.Generation == r.Generation && e.Step < Deleting && r.Step >= Deleting {
		return false
	}
	before := *r
	r.Generation = e.Generation
	switch e.Step {
	case Sent, Deleting:
		*r = Row{Work: e.Work, Cluster: e.Cluster, Generation: e.Generation, Sent: e.At}
	case Applied, Removed:
		if !r.Applied.IsZero() {
			return false
		}
		r.Applied = e.At
		if r.Step == Reported { // the report was received before the event of the agent
			return true
		}
	case Waiting:
		if !r.Reported.IsZero() || !r.Applied.IsZero() {
			return false
		}
	case Reported, Gone:
		if !r.Reported.IsZero() {
			return false
		}
		r.Reported = e.At
	}
	switch {
	case e.Step == Status:
		r.Note = e.Detail // values do not change the step
	case e.Step == Waiting:
		r.Step, r.Note = Waiting, e.Detail
	default:
		if r.Step == Waiting {
			r.Note = ""
		}
		r.Step = e.Step
	}
	return *r != before
}

// row returns the row of a work. It inserts a new row if needed.
func (b *Board) row(work, cluster string) *Row {
	at, found := slices.BinarySearchFunc(b.rows, [2]string{cluster, work}, func(r *Row, key [2]string) int {
		return cmp.Or(strings.Compare(r.Cluster, key[0]), strings.Compare(r.Work, key[1]))
	})
	if !found {
		b.rows = slices.Insert(b.rows, at, &Row{Work: work, Cluster: cluster})
	}
	return b.rows[at]
}

// Line returns an event as one line: time, step, work, cluster, and the time since the work was
// sent.
func (b *Board) Line(e Event) string {
	arrow := map[Step]string{Sent: "->", Deleting: "->", Applied: "on", Removed: "on"}[e.Step]
	if arrow == "" {
		arrow = "<-"
	}
	line := fmt.Sprintf("%s  %-8s  %s %s %s", e.At.Format("15:04:05.000"), e.Step, e.Work, arrow, e.Cluster)
	if r := b.row(e.Work, e.Cluster); (e.Step == Reported || e.Step == Gone) && !r.Sent.IsZero() {
		line += " after " + Short(e.At.Sub(r.Sent))
	}
	if e.Detail != "" {
		line += ": " + e.Detail
	}
	return line
}

// Short formats a duration in few characters: 0.4 ms, 12 ms, 3.4 s.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// Count formats a number of things: 1 work, 2 works.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
