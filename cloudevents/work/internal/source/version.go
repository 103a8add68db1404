// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// checkLocked returns an error for implausible numbers that an agent reports of a work. w is nil
// for an unknown work.
func (s *Source) checkLocked(w *sourceWork, id string, n peer.Numbers) error {
	b := peer.BoundsOf(s.traits, s.options.Clock)
	highest := b.Version
	if w != nil {
		w.healLocked(b)
		highest = max(highest, w.version)
	}
	return n.Check(b, highest, id)
}

// healLocked resets numbers that are out of bounds: an earlier release accepted them from an agent,
// or the clock was ahead. If the version is out of bounds, the work gets a new version, which is
// sent.
func (w *sourceWork) healLocked(b protocol.Bounds) {
	s := w.source
	if !s.writingLocked() {
		return
	}
	if seq, at := b.Heal(w.seq, w.statusTime); seq != w.seq || !at.Equal(w.statusTime) {
		w.seq, w.statusTime = seq, at
		s.keepLocked(w)
	}
	if w.bundle.floor > b.Own {
		w.bundle.floor = 0
		s.keepLocked(w)
	}
	if max(w.version, w.createV, w.deleteV) <= b.Own {
		return
	}
	w.version = 0
	if w.Object == nil || !s.traits.Bundle {
		s.raiseShownLocked(w)
	} else { // the generation is the version
		obj := *w.Object
		obj.Generation = 1
		s.raiseLocked(w, &obj)
		s.putLocked(w, &obj)
	}
	w.createV = min(w.createV, w.version)
	s.sendLocked(w)
}

// healed returns a report without its implausible numbers.
func (r report) healed(b protocol.Bounds) report {
	if r.version > b.Own {
		r.version = 0
	}
	r.seq, _ = b.Heal(r.seq, time.Time{})
	return r
}
