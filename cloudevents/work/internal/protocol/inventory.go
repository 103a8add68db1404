// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"time"
)

// Process is one process of a source or an agent. The processes with one ID are ordered, and the
// newest one is active.
type Process struct {
	Started time.Time
	Session string
}

// Before reports whether p is older than q. The session decides between processes that started at
// the same time.
func (p Process) Before(q Process) bool {
	if !p.Started.Equal(q.Started) {
		return p.Started.Before(q.Started)
	}
	return p.Session < q.Session
}

// Credible reports whether the process can have started by now. Clocks may be wrong by 24 h. A
// process that claims the far future would otherwise be the newest forever.
func (p Process) Credible(now time.Time) bool { return !p.Started.After(now.Add(24 * time.Hour)) }

// Inventory describes whether the works of a source are complete.
type Inventory struct {
	// Complete is whether the owner of the source has declared that all its works exist.
	Complete bool
	// Outdated is whether the cluster has shown that the source's store is older than the cluster's
	// works.
	Outdated bool
	// Replaced is whether a newer process with the source's ID was present since that declaration.
	Replaced bool
	// Rival is whether another process with the source's ID is present.
	Rival bool
}

// Whole reports whether an unknown work must be deleted: it is neither missing from the source's
// store nor made by another process.
func (i Inventory) Whole() bool { return i.Complete && i.Reliable() }

// Reliable reports whether the source may treat unknown works as nonexistent, as far as other
// processes and the cluster show.
func (i Inventory) Reliable() bool { return !i.Outdated && !i.Replaced && !i.Rival }

// Gap is the set of versions that no process with the source's store can have assigned to an
// unknown work. An agent that shows such a version proves that the store is an older copy.
type Gap struct {
	// From is the highest version in the store when it was read. Versions of a later process are
	// above it.
	From int64 `json:"from"`
	// Before is the first version assigned since then; 0 if there is none.
	Before int64 `json:"before"`
	// Older are the gaps of earlier processes, each between From and Before. Their agent has not
	// listed its works since then.
	Older []Gap `json:"older,omitempty"`
}

// mostGaps bounds the number of gaps of earlier processes. Beyond it, two gaps are merged, with the
// versions assigned in between.
const mostGaps = 8

// Next returns the gap of the next process, or of a cluster that was forgotten. highest is the
// highest version assigned.
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
