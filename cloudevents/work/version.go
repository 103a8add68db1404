// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// boundsOf returns the greatest plausible numbers of a profile.
func boundsOf(traits codec.Traits, c clock.PassiveClock) protocol.Bounds {
	if traits.Strict {
		return protocol.BundleBoundsAt(c.Now(), traits.MaxVersion)
	}
	return protocol.BoundsAt(c.Now())
}

// shown are the numbers of an event about a work.
type shown struct {
	version, seq int64
	// time is that of an event which a strict peer has ordered by it.
	time time.Time
}

// check refuses an event whose numbers are out of bounds. highest is the greatest plausible version.
func (n shown) check(b protocol.Bounds, highest int64, id string) error {
	switch {
	case n.version > highest:
		return unusable(refusedVersion, "version %d of work %s is out of range: the greatest plausible one is %d",
			n.version, id, highest)
	case n.seq > b.Sequence:
		return unusable(refusedVersion, "sequence %d of work %s is out of range: the greatest plausible one is %d",
			n.seq, id, b.Sequence)
	case n.time.After(b.Time):
		return unusable(refusedVersion, "time %s of work %s is more than %s ahead of the clock",
			n.time.Format(time.RFC3339), id, protocol.MaxAhead)
	}
	return nil
}

// check refuses the numbers that an agent shows of a work; w is nil for an unknown one.
func (s *Source) check(w *sourceWork, id string, n shown) error {
	b := boundsOf(s.traits, s.options.Clock)
	highest := b.Version
	if w != nil {
		w.heal(b)
		highest = max(highest, w.version)
	}
	return n.check(b, highest, id)
}

// heal takes numbers back that are out of bounds: an earlier release accepted them from an agent,
// or the clock was ahead. The work gets a new version, which is sent; the source's mutex is held.
func (w *sourceWork) heal(b protocol.Bounds) {
	s := w.source
	if !s.writing() {
		return
	}
	if seq, at := b.Heal(w.seq, w.statusTime); seq != w.seq || !at.Equal(w.statusTime) {
		w.seq, w.statusTime = seq, at
		s.keep(w)
	}
	if w.strict.floor > b.Own {
		w.strict.floor = 0
		s.keep(w)
	}
	if max(w.version, w.createV, w.deleteV) <= b.Own {
		return
	}
	w.version = 0
	if w.Object == nil || !s.traits.Strict {
		s.raiseShown(w)
	} else { // the generation is the version
		obj := *w.Object
		obj.Generation = 1
		s.raise(w, &obj)
		s.put(w, &obj)
	}
	w.createV = min(w.createV, w.version)
	s.send(w)
}

// healed returns what is plausible of a report.
func (r report) healed(b protocol.Bounds) report {
	if r.version > b.Own {
		r.version = 0
	}
	r.seq, _ = b.Heal(r.seq, time.Time{})
	return r
}

// check refuses the numbers that a source shows of a work; w is nil for an unknown one.
func (a *Agent) check(w *agentWork, id string, n shown) error {
	b := boundsOf(a.traits, a.options.Clock)
	if w != nil {
		w.heal(b)
	}
	return n.check(b, b.Own, id)
}

// heal takes numbers back that are out of bounds: an earlier release accepted them from a source,
// or the clock was ahead. What the source sends next is then newer. The agent's mutex is held.
func (w *agentWork) heal(b protocol.Bounds) {
	if seq, at := b.Heal(w.seq, w.time); seq != w.seq || !at.Equal(w.time) {
		w.seq, w.time, w.inherited = seq, at, false
		w.agent.keep(w)
	}
	if w.version > b.Own {
		w.version = 1 // 0 in a list would mean that the agent does not have the work
		w.agent.keep(w)
	}
	if w.next != nil && (w.next.Version > b.Own || w.next.Time.After(b.Time)) {
		next := *w.next // the journal may be writing the old one
		next.Version, next.Time = min(next.Version, w.version), w.time
		w.next = &next
		w.agent.keep(w)
	}
}
