// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress shows a person how works travel: a table that is redrawn in place on a terminal, one line
// for each step anywhere else.
//
// [Board] folds events into rows, [Board.Table] and [Board.Line] make text of them; all three are plain
// functions of their input. [Console] does the writing.
package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is a station on a work's way.
type Step int

// The steps, in the order in which a work takes them. Waiting and Status may come more than once or never.
const (
	Sent     Step = iota // the hub gave the work, or a new version of it, to its source
	Applied              // the agent has applied all its manifests
	Waiting              // the agent reported that it cannot apply all of them yet
	Reported             // the agent's report of success has reached the hub
	Status               // the agent reported values from the cluster
	Deleting             // the hub deleted the work
	Removed              // the agent has deleted the work's objects
	Gone                 // the hub knows that the agent is done with it
)

var stepNames = [...]string{"sent", "applied", "waiting", "reported", "status", "delete", "removed", "gone"}

// String is the step's name as shown in a line.
func (s Step) String() string { return stepNames[s] }

// Event is one step of one work on one cluster.
type Event struct {
	Step          Step
	Work, Cluster string
	// Generation is the version of the work that the step is about.
	Generation int64
	At         time.Time
	// Detail is a short remark, such as a reason to wait.
	Detail string
}

// Row is what is known of one work on one cluster.
type Row struct {
	Work, Cluster string
	Generation    int64
	// Step is the last one taken; Waiting is left by Applied and Reported.
	Step Step
	// Sent, Applied and Reported are when the current version, or the deletion, took these steps; zero means not yet.
	Sent, Applied, Reported time.Time
	// Note is the reason to wait, or the values from the cluster.
	Note string
}

// Board holds the rows, by cluster and work. Use from one goroutine at a time.
type Board struct {
	start time.Time
	rows  []*Row
}

// NewBoard returns an empty board. Times are shown relative to start.
func NewBoard(start time.Time) *Board { return &Board{start: start} }

// Rows returns copies of the rows in the order in which they are shown.
func (b *Board) Rows() []Row {
	rows := make([]Row, len(b.rows))
	for i, r := range b.rows {
		rows[i] = *r
	}
	return rows
}

// Add takes an event. It returns false if that changed nothing: the event is late, or says again what is known.
func (b *Board) Add(e Event) bool {
	r := b.row(e.Work, e.Cluster)
	if e.Step >= Deleting {
		// A deletion is about all versions, and where it is noted, the generation may grow once more.
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
		if r.Step == Reported { // the report was quicker to be seen than what it reports
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
		r.Note = e.Detail // values say nothing about how far the work is
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

// row returns the row, made and put in its place if it is new.
func (b *Board) row(work, cluster string) *Row {
	at, found := slices.BinarySearchFunc(b.rows, [2]string{cluster, work}, func(r *Row, key [2]string) int {
		return cmp.Or(strings.Compare(r.Cluster, key[0]), strings.Compare(r.Work, key[1]))
	})
	if !found {
		b.rows = slices.Insert(b.rows, at, &Row{Work: work, Cluster: cluster})
	}
	return b.rows[at]
}

// Line is an event as one line: time, step, where from and to, and how long it took since the work was sent.
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

// Short writes a duration in few characters: 0.4 ms, 12 ms, 3.4 s.
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

// Count writes a number of things: 1 work, 2 works.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
