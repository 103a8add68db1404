// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// agentWork is an agent's record of one work. Without an object it is a tombstone, or a work that
// was not created: its spec could not be used, or its name is taken.
type agentWork struct {
	cache.Entry
	agentRecord
	source *agentSource
	id     string
	// received is when this process received this version, in nanoseconds, or 0 without a tracer.
	received int64
	hash     string // of the reported status; empty until it is needed
	saving   peer.Saving
	charged  int64 // the cost of the record for its source
	// unconfirmed is whether neither a status nor a list has confirmed this version to the source.
	unconfirmed bool
	// The following are places in queues, which outlive the reason for which the work was queued:
	// recent is one in requests.recent, listed in records.tombstones, answering in the outbox, for
	// a status of an answer.
	recent, listed bool
	answering      atomic.Bool
}

// isRecordedLocked reports whether the record is in use: a tombstone may have expired.
func (w *agentWork) isRecordedLocked() bool { return w.source.works[w.id] == w }

// awaitsConfirmationLocked reports whether the source must learn that the version has arrived.
func (w *agentWork) awaitsConfirmationLocked() bool {
	return w.unconfirmed && w.isRecordedLocked() && w.State != protocol.Tombstone
}

// stateOf returns the protocol's view of a record. A nil record is an unknown work.
func stateOf(w *agentWork) protocol.AgentWork {
	if w == nil {
		return protocol.AgentWork{}
	}
	view := protocol.AgentWork{
		State:      w.State,
		Version:    protocol.Version{V: w.Version, UID: string(w.UID)},
		Seq:        w.Seq,
		Time:       w.Time,
		Refused:    w.Refused > 0,
		Finalizers: w.Relearned || w.Object != nil && len(w.Object.Finalizers) > 0,
	}
	if w.Next != nil && w.State == protocol.Deleting {
		view.NextV, view.NextTime = w.Next.Version, w.Next.Time
	}
	return view
}

// createLocked adds the object of a spec, unless the spec is invalid or another source's work has
// its name.
func (w *agentWork) createLocked(spec *codec.Spec) {
	r := w.source.records
	w.keepLocked()
	w.followLocked(spec)
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	w.Next, w.LastMeta, w.Problem, w.Unsent, w.Ahead = nil, nil, nil, nil, 0
	w.Relearned = w.Relearned || spec.ResyncID != "" || spec.Action == codec.ActionAnswer
	w.State = protocol.Held
	if spec.Work == nil {
		w.rejectEmptyLocked("nothing was applied")
		return
	}
	if err := clientset.Brief(clientset.SpecErrors(&spec.Work.Spec)); err != nil && spec.DeletionTimestamp == nil {
		w.rejectInvalidLocked(err, "nothing was applied")
		return
	}
	w.Name = spec.Name
	if !crd.NameFits(w.Name) { // a peer may send its resource ID, or any name of its user
		if spec.DeletionTimestamp != nil {
			w.removeLocked(nil)
			return
		}
		w.rejectLocked("InvalidSpec", "the name is not valid for a Kubernetes object: nothing was applied")
		return
	}
	if other := r.cache.Get(r.options.ClusterName, w.Name); other != nil {
		if spec.DeletionTimestamp != nil {
			w.removeLocked(nil) // another work has the name, so this work has nothing to clean up
			return
		}
		w.Next = spec
		if !slices.Contains(r.waiting[w.Name], w) {
			r.waiting[w.Name] = append(r.waiting[w.Name], w)
		}
		w.rejectLocked("NameConflict", "a work of source "+other.source.name+" has this name on the cluster")
		return
	}
	obj := spec.Work
	obj.Namespace, obj.Name = r.options.ClusterName, w.Name
	obj.UID = types.UID(uuid.NewString())
	w.Created = obj.CreationTimestamp
	if obj.CreationTimestamp.IsZero() {
		obj.CreationTimestamp = metav1.NewTime(r.options.Clock.Now()).Rfc3339Copy()
	}
	if obj.Generation == 0 {
		obj.Generation = 1
	}
	w.Labels, w.Annotations = obj.Labels, obj.Annotations
	obj.Finalizers = cleanupOnly(obj.Finalizers)
	if spec.DeletionTimestamp != nil {
		w.State = protocol.Deleting
		obj.DeletionTimestamp = spec.DeletionTimestamp
		obj.DeletionGracePeriodSeconds = ptr.To[int64](0)
		obj.Finalizers = []string{workv1.ManifestWorkFinalizer}
	}
	r.cache.Put(w, obj)
}

// ownSpec copies the parts of a waiting spec that createLocked changes: the journal may be writing
// the spec.
func ownSpec(spec *codec.Spec) *codec.Spec {
	own := *spec
	if own.Work != nil {
		obj := *own.Work
		own.Work = &obj
	}
	return &own
}

// rejectLocked reports a spec that is not applied. The last valid spec remains.
func (w *agentWork) rejectLocked(reason, message string) {
	w.Problem = degraded(w.source.records.options.Clock.Now(), reason, message)
	w.publishLocked()
}

// rejectEmptyLocked reports a spec without its content: it could not be decoded, or was refused.
func (w *agentWork) rejectEmptyLocked(effect string) {
	if w.Refused > 0 {
		full := w.source.account.ErrFull()
		w.rejectLocked("SpecRefused", fmt.Sprintf("the work has %d bytes: %v: %s", w.Refused, full, effect))
		return
	}
	w.rejectLocked("InvalidSpec", "the spec cannot be decoded: "+effect)
}

// rejectInvalidLocked reports, counts and logs a spec that the schema forbids.
func (w *agentWork) rejectInvalidLocked(err error, effect string) {
	w.source.records.refuseLocked("", peer.Unusable(peer.RefusedSchema,
		"the spec of work %s of source %s is invalid: %w", w.Name, w.source.name, err), peer.RefusedSchema, 1)
	w.rejectLocked("InvalidSpec", "the spec is invalid, and "+effect+": "+err.Error())
}

// takeLocked replaces the spec. An equal spec changes at most metadata, and is answered with the
// status.
func (w *agentWork) takeLocked(spec *codec.Spec) {
	r := w.source.records
	w.keepLocked()
	w.followLocked(spec)
	other := w.UID != spec.UID
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	if spec.Work == nil {
		switch {
		case w.Object == nil: // a spec that waits for its name is older
			r.stopWaitingLocked(w)
			w.Next = nil
		case other: // no generation of this incarnation is applied
			w.Ahead = w.Object.Generation
		}
		w.rejectEmptyLocked("the previous spec stays applied")
		return
	}
	if w.Object == nil { // an earlier spec was rejected, or the name is taken: then the work keeps its place
		w.createLocked(spec)
		if w.Problem == nil {
			w.publishLocked()
		}
		return
	}
	obj := *w.Object
	clientset.KeepEqualManifests(&obj.Spec, &spec.Work.Spec)
	equal := clientset.SameSpec(&obj.Spec, &spec.Work.Spec)
	if !equal {
		if err := clientset.Brief(clientset.SpecErrors(&spec.Work.Spec)); err != nil {
			if other {
				w.Ahead = w.Object.Generation
			}
			w.rejectInvalidLocked(err, "the previous spec stays applied")
			return
		}
		obj.Spec = spec.Work.Spec
		peer.DetachFrom(&w.Object.Spec, &obj.Spec)
	}
	had, ahead := w.Problem != nil, w.Ahead
	w.Problem, w.Created = nil, spec.Work.CreationTimestamp
	w.countLocked(&obj, spec, !equal)
	obj.Labels = mergeKeys(obj.Labels, w.Labels, spec.Work.Labels)
	obj.Annotations = mergeKeys(obj.Annotations, w.Annotations, spec.Work.Annotations)
	obj.OwnerReferences = spec.Work.OwnerReferences
	w.Labels, w.Annotations = spec.Work.Labels, spec.Work.Annotations
	if !equal || obj.Generation != w.Object.Generation || !clientset.SameMetadata(&obj, w.Object) {
		r.cache.Put(w, &obj)
	}
	// In the profile ManifestBundle an empty status is sent too, and would replace the source's
	// status. A changed offset of generations changes the report of the same status.
	if (equal || had || w.Ahead != ahead) && (!r.traits.Bundle || w.reportLocked() != nil) {
		w.publishLocked()
	}
}

// markDeletingLocked sets the deletionTimestamp. The deletion waits for the object's finalizers.
func (w *agentWork) markDeletingLocked(spec *codec.Spec) {
	w.keepLocked()
	w.followLocked(spec)
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	if w.Object == nil { // its spec could not be used; an earlier process may have applied another spec
		w.createLocked(spec)
		return
	}
	w.State = protocol.Deleting
	w.source.setRefusedLocked(w, 0)
	obj := *w.Object
	if len(obj.Finalizers) == 0 {
		obj.Finalizers = []string{workv1.ManifestWorkFinalizer}
	}
	obj.DeletionTimestamp = spec.DeletionTimestamp
	obj.DeletionGracePeriodSeconds = ptr.To[int64](0)
	w.countLocked(&obj, spec, true)
	w.source.records.cache.Put(w, &obj)
}

// mergeKeys applies the changes of the source between before and now to the current map. Keys that
// only the agent set, and values that the source did not change, remain.
func mergeKeys(current, before, now map[string]string) map[string]string {
	if maps.Equal(before, now) {
		return current
	}
	if maps.Equal(current, before) {
		return now
	}
	out := maps.Clone(current)
	if out == nil {
		out = map[string]string{}
	}
	for k := range before {
		if _, ok := now[k]; !ok {
			delete(out, k)
		}
	}
	for k, v := range now {
		if old, ok := before[k]; !ok || old != v {
			out[k] = v
		}
	}
	return out
}

// cleanupOnly returns, of the finalizers in a spec, only the finalizer for the cleanup by an agent.
// The owners of the others are not on the cluster.
func cleanupOnly(finalizers []string) []string {
	if slices.Contains(finalizers, workv1.ManifestWorkFinalizer) {
		return []string{workv1.ManifestWorkFinalizer}
	}
	return nil
}

// entryLocked describes the version of a work that the agent has received. During the cleanup of an
// incarnation, this is the next incarnation, if there is one: it has no status yet.
func (w *agentWork) entryLocked() codec.SpecEntry {
	w.healLocked(w.source.records.bounds())
	e := codec.SpecEntry{ResourceID: w.id, Version: w.Version, UID: w.UID, Source: w.source.name, SequenceID: w.Seq}
	if w.State == protocol.Deleting && w.Next != nil {
		e.Version, e.UID, e.SequenceID = w.Next.Version, w.Next.UID, 0
	}
	if w.source.refused[w] { // not 0: a source without the work would not delete it
		e.Version = max(e.Version-1, 0)
	}
	return e
}

// healLocked resets numbers that are out of bounds: an earlier release accepted them from a source,
// or the clock was ahead. The source's next event is then newer.
func (w *agentWork) healLocked(b protocol.Bounds) {
	if seq, at := b.Heal(w.Seq, w.Time); seq != w.Seq || !at.Equal(w.Time) {
		w.Seq, w.Time, w.Inherited = seq, at, false
		w.keepLocked()
	}
	if w.Version > b.Own {
		w.Version = 1 // 0 in a list would mean that the agent does not have the work
		w.keepLocked()
	}
	if w.Next != nil && (w.Next.Version > b.Own || w.Next.Time.After(b.Time)) {
		next := *w.Next // the journal may be writing the old spec
		next.Version, next.Time = min(next.Version, w.Version), w.Time
		w.Next = &next
		w.keepLocked()
	}
}
