// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/codec"
)

// accountLocked charges the source for the record as it is now.
func (w *agentWork) accountLocked() {
	size, before := int64(0), w.charged
	if w.source.works[w.id] == w {
		size = w.size()
	}
	if w.charged = w.source.account.set(before, size); size < before {
		w.agent.roomLocked()
	}
}

// admit charges the source for a spec that w is to have, as its next one or at once. A spec that
// exceeds the bounds loses its content, and the record reports that. It is an error where there is
// no room for the report either.
func (w *agentWork) admit(spec *codec.Spec, next bool) error {
	size := recordSize(w.id, spec.Name) + specSize(spec)
	if next {
		size = w.size() - specSize(w.next) + specSize(spec)
	}
	if w.source.account.chargeSpec(size - w.charged) {
		less := size < w.charged
		w.charged = size
		w.setRefused(0)
		if less {
			w.agent.roomLocked()
		}
		if spec.Work != nil {
			detach(&spec.Work.Spec)
		}
		return nil
	}
	err := unusable(refusedBudget, "work %s of source %s has %d bytes: %w",
		spec.Name, w.source.name, size, w.source.account.errFull())
	report := max(recordSize(w.id, spec.Name)+reportCost, w.charged)
	if next || spec.Work == nil || spec.DeletionTimestamp != nil ||
		!w.source.account.chargeExcept(report-w.charged, reportReserve) {
		return err
	}
	w.charged = report
	w.setRefused(size)
	spec.Work = nil
	w.agent.refuseLocked("", err, refusedBudget, 1)
	return nil
}

// refusal returns why a spec was refused.
func (w *agentWork) refusal() string {
	return fmt.Sprintf("the work has %d bytes: %v", w.refused, w.source.account.errFull())
}

// setRefused notes the size of a spec that was refused; 0 is for none.
func (w *agentWork) setRefused(size int64) {
	s := w.source
	had := len(s.refused)
	w.refused = size
	switch {
	case size == 0:
		delete(s.refused, w)
	case s.refused == nil:
		s.refused = map[*agentWork]bool{w: false}
	default:
		s.refused[w] = false
	}
	w.agent.refused += len(s.refused) - had
}

// roomLocked asks for refused specs soon: there may be room for some.
func (a *Agent) roomLocked() {
	if a.refused > 0 {
		a.gatherLocked(askDelay)
	}
}

// findRoomLocked chooses the refused specs that there is room for now. Lists and digests show an
// earlier version of their works, so that the source sends them.
func (a *Agent) findRoomLocked() {
	if a.refused == 0 {
		return
	}
	for _, s := range a.sources {
		peer, all := s.account.freeForSpecs()
		free := min(peer, all)
		for w := range s.refused {
			more := w.refused - w.charged
			fits := more <= free
			if s.refused[w] = fits; fits {
				free -= more
			}
		}
	}
}

// size estimates the memory that the source makes the agent keep for a work. Statuses do not count:
// the agent's user writes them.
func (w *agentWork) size() int64 {
	size := recordSize(w.id, w.name) + specSize(w.next)
	if w.Object != nil {
		meta := metav1.ObjectMeta{Labels: w.labels, Annotations: w.annotations, OwnerReferences: w.Object.OwnerReferences}
		size += int64(cache.SpecSize(&meta, &w.Object.Spec))
	}
	if w.lastMeta != nil {
		size += int64(cache.MetaSize(w.lastMeta))
	}
	if w.problem != nil {
		size += int64(len(w.problem.Message))
	}
	return size
}
