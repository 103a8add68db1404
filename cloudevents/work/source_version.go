// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

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

// healed returns a report without its implausible numbers.
func (r report) healed(b protocol.Bounds) report {
	if r.version > b.Own {
		r.version = 0
	}
	r.seq, _ = b.Heal(r.seq, time.Time{})
	return r
}
