// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// check returns an error for implausible numbers in an event; w is nil for an unknown work.
func (a *Agent) check(w *agentWork, id string, n peer.Numbers) error {
	b := peer.BoundsOf(a.traits, a.options.Clock)
	if w != nil {
		w.healLocked(b)
	}
	return n.Check(b, b.Own, id)
}

// healLocked resets numbers that are out of bounds: an earlier release accepted them from a source,
// or the clock was ahead. The source's next event is then newer.
func (w *agentWork) healLocked(b protocol.Bounds) {
	if seq, at := b.Heal(w.Seq, w.Time); seq != w.Seq || !at.Equal(w.Time) {
		w.Seq, w.Time, w.Inherited = seq, at, false
		w.agent.keepLocked(w)
	}
	if w.Version > b.Own {
		w.Version = 1 // 0 in a list would mean that the agent does not have the work
		w.agent.keepLocked(w)
	}
	if w.Next != nil && (w.Next.Version > b.Own || w.Next.Time.After(b.Time)) {
		next := *w.Next // the journal may be writing the old spec
		next.Version, next.Time = min(next.Version, w.Version), w.Time
		w.Next = &next
		w.agent.keepLocked(w)
	}
}
