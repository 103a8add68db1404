// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// check returns an error for implausible numbers in an event of a source; w is nil for an unknown
// work.
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
	if seq, at := b.Heal(w.seq, w.time); seq != w.seq || !at.Equal(w.time) {
		w.seq, w.time, w.inherited = seq, at, false
		w.agent.keepLocked(w)
	}
	if w.version > b.Own {
		w.version = 1 // 0 in a list would mean that the agent does not have the work
		w.agent.keepLocked(w)
	}
	if w.next != nil && (w.next.Version > b.Own || w.next.Time.After(b.Time)) {
		next := *w.next // the journal may be writing the old spec
		next.Version, next.Time = min(next.Version, w.version), w.time
		w.next = &next
		w.agent.keepLocked(w)
	}
}
