// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// accountLocked charges the source for the current size of the record.
func (w *agentWork) accountLocked() {
	size, before := int64(0), w.charged
	if w.isRecordedLocked() {
		size = w.sizeLocked()
	}
	if w.charged = w.source.account.Set(before, size); size < before {
		w.source.records.roomLocked()
	}
}

// admitLocked charges the source for a spec of w: its next spec, or its current one. It drops the
// content of a spec beyond the bounds, and the record reports the refusal. It returns an error
// instead if there is no room for the report, and for a next spec, a spec without content, or a
// deletion.
func (w *agentWork) admitLocked(spec *codec.Spec, next bool) error {
	size := peer.RecordSize(w.id, spec.Name) + peer.SpecSize(spec)
	if next {
		size = w.sizeLocked() - peer.SpecSize(w.Next) + peer.SpecSize(spec)
	}
	if w.source.account.ChargeSpec(size - w.charged) {
		less := size < w.charged
		w.charged = size
		w.source.setRefusedLocked(w, 0)
		if less {
			w.source.records.roomLocked()
		}
		if spec.Work != nil {
			peer.Detach(&spec.Work.Spec)
		}
		return nil
	}
	err := peer.Unusable(peer.RefusedBudget, "work %s of source %s has %d bytes: %w",
		spec.Name, w.source.name, size, w.source.account.ErrFull())
	report := max(peer.RecordSize(w.id, spec.Name)+peer.ReportCost, w.charged)
	if next || spec.Work == nil || spec.DeletionTimestamp != nil ||
		!w.source.account.ChargeExcept(report-w.charged, peer.ReportReserve) {
		return err
	}
	w.charged = report
	w.source.setRefusedLocked(w, size)
	spec.Work = nil
	w.source.records.refuseLocked("", err, peer.RefusedBudget, 1)
	return nil
}

// setRefusedLocked records the size of a refused spec; 0 means that no spec is refused.
func (s *agentSource) setRefusedLocked(w *agentWork, size int64) {
	had := len(s.refused)
	if w.Refused = size; size == 0 {
		delete(s.refused, w)
	} else {
		s.refused[w] = false
	}
	s.records.refused += len(s.refused) - had
}

// roomLocked requests refused specs soon: there may be room for some.
func (r *records) roomLocked() {
	if r.refused > 0 {
		r.schedule.gatherLocked(askDelay)
	}
}

// findRoomLocked selects the refused specs that fit now. Lists and digests then show an earlier
// version of their works, so the source sends the works again.
func (r *records) findRoomLocked() {
	if r.refused == 0 {
		return
	}
	for _, s := range r.sources {
		peer, all := s.account.FreeForSpecs()
		free := min(peer, all)
		for w := range s.refused {
			more := w.Refused - w.charged
			fits := more <= free
			if s.refused[w] = fits; fits {
				free -= more
			}
		}
	}
}

// sizeLocked estimates the memory that the source makes the agent keep for a work. Statuses do not
// count: the agent's user writes them.
func (w *agentWork) sizeLocked() int64 {
	size := peer.RecordSize(w.id, w.Name) + peer.SpecSize(w.Next) + int64(len(w.Trace))
	if w.Object != nil {
		meta := metav1.ObjectMeta{Labels: w.Labels, Annotations: w.Annotations, OwnerReferences: w.Object.OwnerReferences}
		size += int64(cache.SpecSize(&meta, &w.Object.Spec))
	}
	if w.LastMeta != nil {
		size += int64(cache.MetaSize(w.LastMeta))
	}
	if w.Problem != nil {
		size += int64(len(w.Problem.Message))
	}
	return size
}
