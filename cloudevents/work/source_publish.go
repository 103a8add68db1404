// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// sendLocked puts a work into the outbox, once it is stored.
func (s *Source) sendLocked(w *sourceWork) {
	if w.unsaved {
		w.toSend = true
		return
	}
	s.engine.Enqueue(cloudevents.Live, w)
}

// putLocked shows a new state of a work.
func (s *Source) putLocked(w *sourceWork, obj *workv1.ManifestWork) {
	s.cache.Put(w, obj)
	s.keepLocked(w)
}

// raiseLocked gives the work a version above all that its cluster has shown. next is the snapshot that is about to be
// shown, nil for a tombstone.
func (s *Source) raiseLocked(w *sourceWork, next *workv1.ManifestWork) {
	s.numberLocked(w, next)
	s.unconfirmLocked(w)
	w.strict.created = false
	if w.problem != nil && !w.problem.ofStatus() { // it was about the version before
		if next != nil {
			next.Status = w.problem.uncover(next.Status)
		}
		w.setProblem(nil)
	}
	if w.deleting {
		w.deleteV = w.version
	}
}

// raiseShownLocked raises the version of a work as it is.
func (s *Source) raiseShownLocked(w *sourceWork) {
	if w.Object == nil || !s.traits.Strict && w.problem == nil {
		s.raiseLocked(w, nil)
		return
	}
	obj, changed := *w.Object, w.problem != nil
	s.raiseLocked(w, &obj)
	if changed || obj.Generation != w.Object.Generation {
		s.putLocked(w, &obj)
	}
}

// Message makes the event of what the work is now. It implements [cloudevents.Item].
func (w *sourceWork) Message() (cloudevents.Message, error) {
	return w.message(nil)
}

// message makes the work's event; an answer adds what it is an answer to.
func (w *sourceWork) message(a *specAnswer) (cloudevents.Message, error) {
	s := w.source
	s.cache.Lock()
	if a != nil && !a.begun {
		a.begun = true
		w.cluster.answers.begun()
	}
	if w.Object == nil && !w.deleting || !s.writingLocked() || a != nil && a.round != s.round {
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	w.healLocked(boundsOf(s.traits, s.options.Clock))
	if w.unsaved { // store first, then publish
		if a != nil {
			a.parkLocked()
		} else {
			w.toSend = true
		}
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	spec := codec.Spec{
		Header: codec.Header{
			ID:      s.ids.next(),
			Time:    s.options.Clock.Now().UTC(),
			Source:  s.options.SourceID,
			Cluster: w.cluster.name, TraceParent: w.trace,
		},
		WorkRef:      codec.WorkRef{ResourceID: w.id, Version: w.version, UID: w.uid, Name: w.name},
		AgentSession: w.session,
		StatusSeq:    w.seq,
		Work:         w.Object,
	}
	if w.deleting {
		deleted := w.deleted
		spec.DeletionTimestamp = &deleted
	}
	if s.traits.Strict {
		w.strictSpecLocked(&spec)
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
	return encode(s.options.Profile, &spec)
}

// finishLocked ends the deletion of a work: its agent is done, or was given up.
func (s *Source) finishLocked(w *sourceWork) {
	if w.Object == nil {
		s.drop(w)
		return
	}
	if w.gone {
		return // said again, while other finalizers hold the object
	}
	w.gone = true
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

// drop removes the record and what is shown of it.
func (s *Source) drop(w *sourceWork) { s.dropAs(w, nil) }

// dropAs removes the record; last is the state that watches see removed, nil for the current one.
func (s *Source) dropAs(w *sourceWork, last *workv1.ManifestWork) {
	s.cache.Remove(w, last)
	w.cluster.delivery.unlink(w)
	w.deleting = false
	if key := (workID{w.cluster.name, w.id}); s.works[key] == w {
		delete(s.works, key)
		w.cluster.forgetSuspect(w.id)
		w.accountLocked()
		s.keepLocked(w)
		w.resume() // a record of its name that comes next is the one that is saved
	}
	if s.traits.Strict {
		w.keepLastVersion()
	}
	s.removeTombstoneLocked(w)
}

// emptyStatus reports whether a status says nothing: no agent has reported, or nothing worth a report.
func emptyStatus(s *workv1.ManifestWorkStatus) bool {
	return len(s.Conditions) == 0 && len(s.ResourceStatus.Manifests) == 0
}
