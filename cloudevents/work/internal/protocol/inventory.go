// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

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

// Credible reports whether the process can have started by now, with room for a clock that is wrong: one that claims the
// far future would be the newest for ever.
func (p Process) Credible(now time.Time) bool { return !p.Started.After(now.Add(24 * time.Hour)) }

// Inventory is what a source knows of the completeness of its works.
type Inventory struct {
	// Complete is whether the owner of the source has said that all its works are there.
	Complete bool
	// Doubted is whether the cluster has shown that the source's store is older than what the cluster holds.
	Doubted bool
	// Replaced is whether a newer process with the ID of the source has been there since the owner said so.
	Replaced bool
	// Rival is whether another process with the ID of the source is there.
	Rival bool
}

// Whole reports whether a work that the source does not know is to go: it is neither missing from the source's store nor
// made by another process.
func (i Inventory) Whole() bool { return i.Complete && i.Reliable() }

// Reliable reports whether the source may take what it does not know for what is not there, as far as others can tell.
func (i Inventory) Reliable() bool { return !i.Doubted && !i.Replaced && !i.Rival }

// Gap are the versions that no process with the source's store can have given: those above From, the highest that the
// store had when it was read, and below Before, the first that was given since; 0 where none was. An agent that shows one
// proves that the store is an older copy.
type Gap struct {
	From   int64 `json:"from"`
	Before int64 `json:"before"`
}

// Has reports whether v is in the gap. A nil gap is empty.
func (g *Gap) Has(v int64) bool { return g != nil && v > g.From && (g.Before == 0 || v < g.Before) }
