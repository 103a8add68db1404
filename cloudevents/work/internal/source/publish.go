// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// sendLocked queues a work in the outbox, at once or when it is stored.
func (s *Source) sendLocked(w *sourceWork) {
	if w.saving.Send() {
		s.engine.Enqueue(engine.LaneLive, w)
	}
}

// putLocked puts a new state of a work into the cache and marks its record for the Store.
func (s *Source) putLocked(w *sourceWork, obj *workv1.ManifestWork) {
	s.cache.Put(w, obj)
	s.keepLocked(w)
}

// raiseLocked gives a work a version above all versions that its cluster has reported. next is the
// next state of the object, or nil if there is none.
func (s *Source) raiseLocked(w *sourceWork, next *workv1.ManifestWork) {
	s.numberLocked(w, next)
	s.unconfirmLocked(w)
	w.bundle.created = false
	if w.problem != nil && !w.problem.ofStatus() { // it was about the previous version
		if next != nil {
			next.Status = w.problem.uncover(next.Status)
		}
		w.setProblem(nil)
	}
	if w.phase.IsDeleting() {
		w.deleteV = w.version
	}
}

// raiseShownLocked raises the version of a work without a change of its spec.
func (s *Source) raiseShownLocked(w *sourceWork) {
	if w.Object == nil || !s.traits.Bundle && w.problem == nil {
		s.raiseLocked(w, nil)
		return
	}
	obj, changed := *w.Object, w.problem != nil
	s.raiseLocked(w, &obj)
	if changed || obj.Generation != w.Object.Generation {
		s.putLocked(w, &obj)
	}
}

// Message makes an event of the current state of the work. It implements [engine.Item].
func (w *sourceWork) Message() (cloudevents.Message, error) { return w.message(nil) }

// message makes the work's event. In an answer, the event also has the resync ID and the session of
// the list.
func (w *sourceWork) message(a *specAnswer) (cloudevents.Message, error) {
	s := w.source
	s.cache.Lock()
	if a != nil && !a.begun {
		a.begun = true
		w.cluster.answers.begun()
	}
	if w.phase == protocol.SourceAbsent || !s.writingLocked() || a != nil && a.round != s.round {
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	w.healLocked(peer.BoundsOf(s.traits, s.options.Clock))
	switch { // store first, then publish
	case w.saving == peer.Saved:
	case a != nil:
		a.parkLocked()
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	case !w.saving.Send():
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	spec := codec.Spec{
		Header:       s.header(w.cluster.name),
		WorkRef:      codec.WorkRef{ResourceID: w.id, Version: w.version, UID: w.uid, Name: w.name},
		AgentSession: w.session,
		StatusSeq:    w.seq,
		Work:         w.Object,
	}
	spec.TraceParent = w.trace
	if w.phase.IsDeleting() {
		deleted := w.deleted
		spec.DeletionTimestamp = &deleted
	}
	if s.traits.Bundle {
		w.bundleSpecLocked(&spec)
	}
	w.offered = true
	w.sentLocked(spec.Time)
	s.cache.Unlock()
	if spec.Work == nil {
		spec.Work = &workv1.ManifestWork{}
	}
	if a != nil {
		spec.Action = codec.ActionAnswer
		spec.ResyncID = a.resyncID
		spec.AgentSession = a.session
	}
	return peer.Encode(s.options.Profile, &spec)
}

// finishLocked ends the deletion of a work: its agent is done, or was given up.
func (s *Source) finishLocked(w *sourceWork) {
	if w.Object == nil {
		s.drop(w)
		return
	}
	if w.phase == protocol.SourceGone {
		return // reported again while other finalizers hold the object
	}
	w.phase = protocol.SourceGone
	s.confirmLocked(w)
	rest := slices.DeleteFunc(slices.Clone(w.Object.Finalizers), func(f string) bool {
		return f == workv1.ManifestWorkFinalizer
	})
	if len(rest) > 0 {
		obj := *w.Object
		obj.Finalizers = rest
		s.putLocked(w, &obj)
		return
	}
	s.drop(w)
}

// drop removes a record, and its object from the cache.
func (s *Source) drop(w *sourceWork) { s.dropAs(w, nil) }

// dropAs is drop with the last state that watches deliver; nil is the current state.
func (s *Source) dropAs(w *sourceWork, last *workv1.ManifestWork) {
	s.cache.Remove(w, last)
	w.cluster.delivery.unlink(w)
	w.phase = protocol.SourceAbsent
	if key := (workID{w.cluster.name, w.id}); s.works[key] == w {
		delete(s.works, key)
		w.cluster.forgetSuspect(w.id)
		w.accountLocked()
		s.keepLocked(w)
		w.resume() // if a later work has this key, its record is saved instead
	}
	if s.traits.Bundle {
		w.keepLastVersion()
	}
	s.removeTombstoneLocked(w)
}
