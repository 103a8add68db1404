// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// numberLocked gives a record its next version. next is the next state of the object, or nil if
// there is none.
func (s *Source) numberLocked(w *sourceWork, next *workv1.ManifestWork) {
	now := s.options.Clock.Now()
	s.keepLocked(w)
	if !s.traits.Bundle {
		w.version = w.cluster.next(now)
		return
	}
	if r, ok := w.cluster.reported.take(w.id); ok {
		r = r.healed(peer.BoundsOf(s.traits, s.options.Clock))
		w.bundle.floor, w.seq = max(w.bundle.floor, r.version), max(w.seq, r.seq)
	}
	generation := int64(0)
	if next != nil {
		generation = next.Generation
		w.bundle.unversioned = next.Annotations[codec.AnnotationResourceVersion] == "0"
	}
	if w.bundle.unversioned {
		w.version = 0
		return
	}
	w.version = protocol.NextGeneration(generation, max(w.version, w.bundle.floor))
	if next != nil {
		next.Generation = w.version
	}
}

// sawLocked records a version that the cluster has reported. raise is whether the work's version
// must be above it.
func (s *Source) sawLocked(c *sourceCluster, w *sourceWork, id string, version int64, raise bool) {
	switch {
	case !s.traits.Bundle:
		c.saw(version)
	case w != nil:
		if raise || version > max(w.version, w.bundle.floor) {
			w.bundle.floor = max(version, w.version) + protocol.Unreported
			s.keepLocked(w)
		}
	default:
		if version > c.reported.byID[id].version {
			version += protocol.Unreported
		}
		c.reported.saw(id, datedReport{report: report{version: version}, at: s.options.Clock.Now()})
	}
}

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

// healLocked resets numbers that are out of bounds; see [protocol.Bounds.Heal]. A work with such a
// version gets a new one, which is sent.
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
