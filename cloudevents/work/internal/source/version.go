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
func (w *sourceWork) numberLocked(next *workv1.ManifestWork) {
	now := w.cluster.now()
	w.keepLocked()
	if !w.cluster.traits.Bundle {
		w.version = w.cluster.nextLocked(now)
		return
	}
	if r, ok := w.cluster.reported.takeLocked(w.id); ok {
		r = r.healed(peer.BoundsOf(w.cluster.traits, w.cluster.options.Clock))
		w.bundle.Floor, w.seq = max(w.bundle.Floor, r.version), max(w.seq, r.seq)
	}
	generation := int64(0)
	if next != nil {
		generation = next.Generation
		w.bundle.Unversioned = next.Annotations[codec.AnnotationResourceVersion] == "0"
	}
	if w.bundle.Unversioned {
		w.version = 0
		return
	}
	w.version = protocol.NextGeneration(generation, max(w.version, w.bundle.Floor))
	if next != nil {
		next.Generation = w.version
	}
}

// sawLocked records a version that the cluster has reported. raise is whether the work's version
// must be above it.
func (c *sourceCluster) sawLocked(w *sourceWork, id string, version int64, raise bool) {
	switch {
	case !c.traits.Bundle:
		if c.highest < version || c.highest > protocol.Horizon(c.now()) {
			c.highest = version
			c.keepLocked()
		}
	case w != nil:
		if raise || version > max(w.version, w.bundle.Floor) {
			w.bundle.Floor = max(version, w.version) + protocol.Unreported
			w.keepLocked()
		}
	default:
		if version > c.reported.byID[id].version {
			version += protocol.Unreported
		}
		c.reported.sawLocked(id, datedReport{report: report{version: version}, at: c.now()})
	}
}

// checkLocked returns an error for implausible numbers that an agent reports of a work. w is nil
// for an unknown work.
func (r *records) checkLocked(w *sourceWork, id string, n peer.Numbers) error {
	b := peer.BoundsOf(r.traits, r.options.Clock)
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
	if !w.cluster.records.writingLocked() {
		return
	}
	if seq, at := b.Heal(w.seq, w.statusTime); seq != w.seq || !at.Equal(w.statusTime) {
		w.seq, w.statusTime = seq, at
		w.keepLocked()
	}
	if w.bundle.Floor > b.Own {
		w.bundle.Floor = 0
		w.keepLocked()
	}
	if max(w.version, w.createV, w.deleteV) <= b.Own {
		return
	}
	w.version = 0
	if w.Object == nil || !w.cluster.traits.Bundle {
		w.raiseShownLocked()
	} else { // the generation is the version
		obj := *w.Object
		obj.Generation = 1
		w.raiseLocked(&obj)
		w.putLocked(&obj)
	}
	w.createV = min(w.createV, w.version)
	w.sendLocked()
}

// healed returns a report without its implausible numbers.
func (r report) healed(b protocol.Bounds) report {
	if r.version > b.Own {
		r.version = 0
	}
	r.seq, _ = b.Heal(r.seq, time.Time{})
	return r
}

// raiseLocked gives a work a version above all versions that its cluster has reported. next is the
// next state of the object, or nil if there is none.
func (w *sourceWork) raiseLocked(next *workv1.ManifestWork) {
	w.numberLocked(next)
	w.cluster.delivery.unconfirmLocked(w)
	w.bundle.Created = false
	if w.problem != nil && !w.problem.ofStatus() { // it was about the previous version
		if next != nil {
			next.Status = w.problem.uncover(next.Status)
		}
		w.setProblemLocked(nil)
	}
	if w.phase.IsDeleting() {
		w.deleteV = w.version
	}
}

// raiseShownLocked raises the version of a work without a change of its spec.
func (w *sourceWork) raiseShownLocked() {
	if w.Object == nil || !w.cluster.traits.Bundle && w.problem == nil {
		w.raiseLocked(nil)
		return
	}
	obj, changed := *w.Object, w.problem != nil
	w.raiseLocked(&obj)
	if changed || obj.Generation != w.Object.Generation {
		w.putLocked(&obj)
	}
}

// After quickRaises raises in a row, a work is raised once in a raiseInterval.
const (
	quickRaises   = 4
	raiseInterval = time.Minute
)

// mayRaiseLocked reports whether the version of a work may now be raised above the version that its
// agent reports, and counts the raise. A deleted work must be clear of rivals first: a newer
// process may have created it again. Raises of a live work are limited: a rival may raise it too,
// if the broker drops the presences of the rival.
func (w *sourceWork) mayRaiseLocked() bool {
	if w.phase.IsDeleting() {
		return w.cluster.suspects.clearsLocked(w.id)
	}
	now := w.cluster.now()
	switch since := now.Sub(w.raisedAt); {
	case since > 2*raiseInterval || since < 0:
		w.raises = 0
	case w.raises >= quickRaises && since < raiseInterval:
		return false
	}
	w.raises, w.raisedAt = min(w.raises+1, quickRaises), now
	return true
}
