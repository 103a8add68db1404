// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"container/list"
	"sync/atomic"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// sourceWork is a source's record of one work: an object, or a tombstone of an unknown work.
type sourceWork struct {
	cache.Entry
	cluster     *sourceCluster
	id          string
	name        string     // empty for a tombstone if no event had the name
	trace       peer.Trace // of the write that made this version, or of its first publication
	statusTrace peer.Trace // of the last status
	uid         types.UID
	identity    protocol.Identity // of id and uid; zero until a digest needs it
	// session is that of the agent when the work was created. Other processes of the agent request
	// the work first, because that one may have applied it.
	session string

	version          int64
	createV, deleteV int64
	seq              int64
	statusTime       time.Time
	hash             string // of the status; empty until it is needed
	delivered
	bundle bundleWork
	// problem is a condition of the source's own, shown in addition to the reported status.
	problem *problem
	deleted metav1.Time
	// charged is the size that the cluster is charged for, own whether the record raises its
	// bounds.
	charged int64
	own     bool
	phase   protocol.SourcePhase
	saving  peer.Saving
	// raises counts how often in a row the version was raised above that of the agent, the last
	// time at raisedAt.
	raises   int8
	raisedAt time.Time
	// offered is whether an event was made since the problem began.
	offered bool
	// troubled is whether a problem prevents publishing. It can be read without the mutex.
	troubled atomic.Bool
	// traced is whether this process has published the current version.
	traced bool
	// place is the position of a tombstone in records.tombstones.
	place *list.Element
	// parked has the answers that wait until the record is stored.
	parked *specAnswer
}

// keepLocked notes that the record of a work has changed.
func (w *sourceWork) keepLocked() {
	if r := w.cluster.records; r.journal != nil && r.leads {
		w.saving.Change()
		r.journal.MarkLocked(journal.WorkKey(w.cluster.name, w.id), w)
	}
}

// putLocked puts a new state of a work into the cache and marks its record for the Store.
func (w *sourceWork) putLocked(obj *workv1.ManifestWork) {
	w.cluster.records.cache.Put(w, obj)
	w.keepLocked()
}

// view returns the fields that the protocol's decisions need. A nil record is an unknown work.
func (w *sourceWork) view() protocol.SourceWork {
	if w == nil {
		return protocol.SourceWork{}
	}
	return protocol.SourceWork{
		Version: protocol.Version{V: w.version, UID: string(w.uid)},
		Phase:   w.phase,
		Seq:     w.seq,
		Time:    w.statusTime,
		CreateV: w.createV,
		DeleteV: w.deleteV,

		Unversioned: w.bundle.Unversioned,
		Reported:    w.bundle.Reported,
	}
}

func (w *sourceWork) Content() any {
	if w.cluster.records.works[workID{w.cluster.name, w.id}] != w {
		return nil
	}
	out := &storedSourceWork{
		Name: w.name, UID: w.uid, Session: w.session, Version: w.version, CreateV: w.createV, DeleteV: w.deleteV,
		Seq: w.seq, StatusTime: w.statusTime, Hash: w.hash,
		Deleting: w.phase.IsDeleting(), Gone: w.phase == protocol.SourceGone, Confirmed: w.confirmed, Problem: w.problem,
		Trace: w.trace, Object: w.Object,
	}
	if w.phase.IsDeleting() {
		deleted := w.deleted
		out.Deleted = &deleted
	}
	if w.cluster.traits.Bundle {
		bundle := w.bundle.storedBundleWork
		out.Bundle = &bundle
	}
	return out
}

// Saved publishes the work, and the answers with it, if they waited until the record was durable.
func (w *sourceWork) Saved() {
	if w.saving.Save() {
		w.cluster.engine.Enqueue(engine.LaneLive, w)
	}
	w.resumeLocked()
}

// identityLocked returns the hashes of id and uid, which the digest of each minute needs.
func (w *sourceWork) identityLocked() protocol.Identity {
	if w.identity == (protocol.Identity{}) {
		w.identity = protocol.NewIdentity(w.id, string(w.uid))
	}
	return w.identity
}

// loadLocked sets the fields of a work from its record.
func (w *sourceWork) loadLocked(stored *storedSourceWork) {
	w.name, w.uid, w.session = stored.Name, stored.UID, stored.Session
	w.identity = protocol.Identity{}
	w.version, w.createV, w.deleteV = stored.Version, stored.CreateV, stored.DeleteV
	w.seq, w.statusTime, w.hash = stored.Seq, stored.StatusTime, stored.Hash
	w.phase, w.confirmed = protocol.SourceActive, stored.Confirmed
	w.trace, w.traced = stored.Trace, false
	switch {
	case stored.Gone:
		w.phase = protocol.SourceGone
	case stored.Deleting:
		w.phase = protocol.SourceDeleting
	}
	if w.confirmed {
		w.cluster.delivery.unlinkLocked(w)
	}
	w.setProblemLocked(stored.Problem)
	w.deleted, w.bundle = metav1.Time{}, bundleWork{}
	if stored.Deleted != nil {
		w.deleted = *stored.Deleted
	}
	if stored.Bundle != nil {
		w.bundle.storedBundleWork = *stored.Bundle
	}
}

// confirmLocked notes that the agent has the current version of a work.
func (w *sourceWork) confirmLocked() {
	if w.confirmed {
		return
	}
	c := w.cluster
	c.delivery.confirmLocked(w)
	if w.Object != nil && w.problem.late() {
		w.hideProblemLocked()
	}
	w.keepLocked()
	if d := &c.delivery; d.outstanding < d.window {
		c.answers.advanceLocked()
		if !d.attemptAt.IsZero() {
			c.sendAgainLocked(c.now())
		}
	}
}

// underWayLocked reports whether a work was sent so recently that its absence from a list does not
// prove a loss. sentSinceLocked reports whether an answer no longer needs the work.
func (w *sourceWork) underWayLocked() bool {
	at := time.Unix(0, w.sent).Add(resendAfter)
	return w.linked && !peer.IsDue(at, w.cluster.now(), resendAfter)
}

func (w *sourceWork) sentSinceLocked() bool {
	return !w.linked || w.attempt == w.cluster.delivery.attempt
}

// acceptLocked shows a reported status. An equal or refused status changes only the record.
func (w *sourceWork) acceptLocked(m *codec.Status) error {
	w.seq = max(w.seq, m.SequenceID)
	w.statusTime, w.bundle.Reported, w.statusTrace = m.Time, true, peer.TraceOf(&m.Header)
	w.keepLocked()
	if m.Status == nil || w.Object == nil {
		return nil
	}
	if err := w.admitLocked(m.Status); err != nil {
		w.refuseStatusLocked(err)
		return err
	}
	w.hash = m.Hash
	if w.phase == protocol.SourceActive && peer.AppliedChanged(&w.Object.Status, m.Status) {
		w.traceStatusLocked(m, peer.ErrNotApplied(m.Status))
	}
	status := *m.Status
	switch {
	case w.problem.ofStatus():
		w.setProblemLocked(nil)
	case w.problem != nil:
		var p *problem
		status, p = w.problem.cover(status)
		w.setProblemLocked(p)
	}
	if apiequality.Semantic.DeepEqual(w.Object.Status, status) {
		return nil
	}
	obj := *w.Object
	obj.Status = status
	w.cluster.records.cache.Put(w, &obj)
	return nil
}

// accountLocked charges the cluster for a tombstone, the status of an object, or nothing if the
// record was removed.
func (w *sourceWork) accountLocked() {
	a, size, own := &w.cluster.account, int64(0), false
	if w.cluster.records.works[workID{w.cluster.name, w.id}] == w {
		if own = w.Object != nil; own {
			size = peer.StatusSize(&w.Object.Status)
		} else {
			size = w.tombstoneSize()
		}
	}
	if !own {
		delete(w.cluster.statuses.refused, w)
	}
	w.charged = a.Set(w.charged, size)
	switch {
	case own && !w.own:
		a.Allow(peer.WorkAllowance)
	case !own && w.own:
		a.Allow(-peer.WorkAllowance)
	}
	w.own = own
}

func (w *sourceWork) tombstoneSize() int64 {
	return int64(peer.TombstoneCost + 2*len(w.id) + len(w.name))
}

// admitLocked refuses a status that is too large, that the CRD's schema forbids, or for which the
// cluster has no bytes left.
func (w *sourceWork) admitLocked(status *workv1.ManifestWorkStatus) error {
	o := &w.cluster.options
	size := peer.StatusSize(status)
	delete(w.cluster.statuses.refused, w)
	if size > int64(o.MaxStatusBytes) {
		return peer.Unusable(peer.RefusedBudget, "the status of work %s/%s has %d bytes, SourceOptions.MaxStatusBytes is %d",
			w.cluster.name, w.name, size, o.MaxStatusBytes)
	}
	if err := clientset.Brief(clientset.StatusErrors(status)); err != nil {
		return peer.Unusable(peer.RefusedSchema, "the status of work %s/%s is invalid: %w", w.cluster.name, w.name, err)
	}
	if !w.cluster.account.Charge(size - w.charged) {
		w.cluster.statuses.refusedLocked(w, size)
		return peer.Unusable(peer.RefusedBudget, "the status of work %s/%s has %d bytes: %w",
			w.cluster.name, w.name, size, w.cluster.account.ErrFull())
	}
	w.charged = size
	return nil
}

// sendLocked queues a work in the outbox, at once or when it is stored.
func (w *sourceWork) sendLocked() {
	if w.saving.Send() {
		w.cluster.engine.Enqueue(engine.LaneLive, w)
	}
}

// Message makes an event of the current state of the work. It implements [engine.Item].
func (w *sourceWork) Message() (cloudevents.Message, error) { return w.message(nil) }

// message makes the work's event. In an answer, the event also has the resync ID and the session of
// the list.
func (w *sourceWork) message(a *specAnswer) (cloudevents.Message, error) {
	c := w.cluster
	c.mu.Lock()
	if a != nil && !a.begun {
		a.begun = true
		c.answers.begunLocked()
	}
	if w.phase == protocol.SourceAbsent || !c.records.writingLocked() || a != nil && a.round != c.records.round {
		c.mu.Unlock()
		return cloudevents.Message{}, nil
	}
	w.healLocked(peer.BoundsOf(c.traits, c.options.Clock))
	if w.saving != peer.Saved { // store first, then publish
		if a != nil {
			a.parkLocked()
		} else {
			w.saving.Send()
		}
		c.mu.Unlock()
		return cloudevents.Message{}, nil
	}
	spec := codec.Spec{
		Header:       c.header(c.name, ""),
		WorkRef:      codec.WorkRef{ResourceID: w.id, Version: w.version, UID: w.uid, Name: w.name},
		AgentSession: w.session,
		StatusSeq:    w.seq,
		Work:         w.Object,
	}
	w.publishTraceLocked(&spec)
	if w.phase.IsDeleting() {
		deleted := w.deleted
		spec.DeletionTimestamp = &deleted
	}
	if c.traits.Bundle {
		w.bundleSpecLocked(&spec)
	}
	w.offered = true
	c.delivery.sentLocked(w, spec.Time)
	c.mu.Unlock()
	if spec.Work == nil {
		spec.Work = &workv1.ManifestWork{}
	}
	if a != nil {
		spec.Action = codec.ActionAnswer
		spec.ResyncID = a.resyncID
		spec.AgentSession = a.session
	}
	return peer.Encode(c.options.Profile, &spec)
}
