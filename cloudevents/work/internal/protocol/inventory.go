// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"time"
)

// Process is one process of a source or an agent. Those with one ID have an order: the newest one works.
type Process struct {
	Started time.Time
	Session string
}

// Before reports whether p is older than q. The session decides between processes that started at the same time.
func (p Process) Before(q Process) bool {
	if !p.Started.Equal(q.Started) {
		return p.Started.Before(q.Started)
	}
	return p.Session < q.Session
}

// Credible reports whether the process can have started by now, with room for a clock that is
// wrong: one that claims the far future would be the newest for ever.
func (p Process) Credible(now time.Time) bool { return !p.Started.After(now.Add(24 * time.Hour)) }

// Inventory is what a source knows of the completeness of its works.
type Inventory struct {
	// Complete is whether the owner of the source has said that all its works are there.
	Complete bool
	// Outdated is whether the cluster has shown that the source's store is older than what the cluster holds.
	Outdated bool
	// Replaced is whether a newer process with the ID of the source has been there since the owner said so.
	Replaced bool
	// Rival is whether another process with the ID of the source is there.
	Rival bool
}

// Whole reports whether a work that the source does not know is to go: it is neither missing from
// the source's store nor made by another process.
func (i Inventory) Whole() bool { return i.Complete && i.Reliable() }

// Reliable reports whether the source may take what it does not know for what is not there, as far as others can tell.
func (i Inventory) Reliable() bool { return !i.Outdated && !i.Replaced && !i.Rival }

// Gap are the versions that no process with the source's store can have given to a work that the
// source does not know. An agent that shows one proves that the store is an older copy.
type Gap struct {
	// From is the highest version that the store had when it was read: what a later process gave is above it.
	From int64 `json:"from"`
	// Before is the first version that was given since; 0 where none was.
	Before int64 `json:"before"`
	// Older are the gaps of earlier processes, each between From and Before. Their agent has not
	// listed its works since.
	Older []Gap `json:"older,omitempty"`
}

// mostGaps bounds how many gaps of earlier processes are kept. Above that, two become one, with
// what was given in between.
const mostGaps = 8

// Next returns the gap of the next process, or of a cluster that was forgotten. Highest is the highest version given.
func (g *Gap) Next(highest int64) *Gap {
	switch {
	case g == nil:
		return &Gap{From: highest}
	case g.Before == 0:
		return g
	}
	older := append(slices.Clone(g.Older), Gap{From: g.From, Before: g.Before})
	if n := len(older); n > mostGaps {
		older[n-2].Before = older[n-1].Before
		older = older[:n-1]
	}
	return &Gap{From: highest, Older: older}
}

// Has reports whether v is in the gap. A nil gap is empty.
func (g *Gap) Has(v int64) bool {
	if g == nil {
		return false
	}
	return v > g.From || slices.ContainsFunc(g.Older, func(o Gap) bool { return v > o.From && v < o.Before })
}

// Kept reports whether the next process needs the gap.
func (g *Gap) Kept() bool { return g != nil && (g.Before != 0 || len(g.Older) > 0) }
