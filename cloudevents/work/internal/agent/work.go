// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
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
	agent   *Agent
	source  *agentSource
	id      string
	trace   traces
	hash    string // of the reported status; empty until it is needed
	saving  peer.Saving
	charged int64 // the cost of the record for its source
	// unconfirmed is whether neither a status nor a list has confirmed this version to the source.
	unconfirmed bool
	// The following are places in queues, which outlive the reason for which the work was queued:
	// recent is one in ownRequests.recent, listed in Agent.tombstones, answering in the outbox, for
	// a status of an answer.
	recent, listed bool
	answering      atomic.Bool
}

// publishLocked puts the work into the outbox with a status newer than all before.
func (w *agentWork) publishLocked() {
	w.advance()
	w.hash = ""
	w.agent.send(w)
}

// statusAccepted records the sequence of a status that the source has accepted. A sequence above
// all of this process is from an earlier process, which may have more statuses in flight.
func (w *agentWork) statusAccepted(seq int64) {
	if seq > w.Seq {
		w.Seq, w.Inherited = seq, true
		w.agent.keepLocked(w)
	}
}

// advance assigns the sequence of the next status. An earlier process with a faster clock may have
// assigned the next number too, and two statuses with one number would look like one status. So
// advance skips some numbers.
func (w *agentWork) advance() {
	w.agent.keepLocked(w)
	now, skip := w.agent.options.Clock.Now(), int64(0)
	if w.agent.traits.Bundle {
		if w.Inherited {
			skip = 1 + rand.Int64N(maxSkipMillis)
		}
		w.Seq = protocol.NextSnowflake(w.Seq, now, skip)
	} else {
		next := protocol.Next(w.Seq, now)
		if w.Inherited && next == w.Seq+1 {
			skip = rand.Int64N(maxSkip)
		}
		w.Seq = next + skip
	}
	w.Inherited = false
}

const (
	// maxSkip is the range of numbers within a millisecond.
	maxSkip = 1 << 20
	// maxSkipMillis is the largest number of milliseconds to skip in the profile ManifestBundle,
	// where a millisecond has fewer numbers.
	maxSkipMillis = 1 << 10
)

// report returns the status to publish. nil means that the event has only UID and version.
func (w *agentWork) report() *workv1.ManifestWorkStatus {
	var status workv1.ManifestWorkStatus
	if w.Object != nil && w.Unsent == nil {
		status = w.Object.Status
	}
	status = countedBack(status, w.Ahead)
	if problem := w.problem(); problem != nil && w.State != protocol.Tombstone {
		status = withCondition(status, *problem)
	}
	if w.State == protocol.Tombstone {
		status = withCondition(status, metav1.Condition{
			Type:               codec.ConditionDeleted,
			Status:             metav1.ConditionTrue,
			Reason:             "ManifestsDeleted",
			Message:            "the work is gone from cluster " + w.agent.options.ClusterName,
			LastTransitionTime: metav1.NewTime(w.Removed).Rfc3339Copy(),
		})
	}
	if peer.EmptyStatus(&status) && !w.Reported {
		return nil
	}
	return &status
}

// statusHash returns the hash of the reported status. It is empty if there is nothing to report,
// unless the profile is ManifestBundle: its peers hash an empty status too.
func (w *agentWork) statusHash() (string, error) {
	if w.hash != "" {
		return w.hash, nil
	}
	status := w.report()
	if !w.agent.traits.Bundle && (status == nil || peer.EmptyStatus(status)) {
		return "", nil
	}
	hash, err := w.agent.options.Profile.StatusHash(status)
	w.hash = hash
	return hash, err
}

// Message returns the event of the current status. It implements [engine.Item].
func (w *agentWork) Message() (cloudevents.Message, error) {
	return w.message("", codec.ActionUpdate)
}

// Settled reports a short status if the full status cannot be published, so the source does not
// wait forever.
func (w *agentWork) Settled(err error) {
	if err == nil || errors.Is(err, cloudevents.ErrConnectionLost) {
		return
	}
	w.agent.cache.Lock()
	defer w.agent.cache.Unlock()
	if w.Unsent == nil || w.Unsent != w.problem() { // otherwise the engine has logged it
		w.Unsent = w.degraded(peer.UnsentReason(err), "the status was not published: "+err.Error())
		w.publishLocked()
	}
}

// problem returns the condition that is added to the reported status: the later of Problem and
// Unsent, or nil.
func (w *agentWork) problem() *metav1.Condition {
	if w.Unsent == nil || w.Problem != nil && w.Unsent.LastTransitionTime.Before(&w.Problem.LastTransitionTime) {
		return w.Problem
	}
	return w.Unsent
}

func (w *agentWork) message(resyncID string, action codec.Action) (cloudevents.Message, error) {
	a := w.agent
	a.cache.Lock()
	if w.source.works[w.id] != w {
		a.cache.Unlock()
		return cloudevents.Message{}, nil // an expired tombstone
	}
	w.healLocked(peer.BoundsOf(a.traits, a.options.Clock))
	if !w.saving.Send() { // store first, then publish
		a.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	status := codec.Status{
		Header: codec.Header{
			ID: a.ids.Next(), Time: a.options.Clock.Now().UTC(), Source: w.source.name,
			Cluster: a.options.ClusterName, Agent: a.options.AgentID, ResyncID: resyncID,
			TraceParent: cmp.Or(w.trace.said, w.trace.spec),
		},
		WorkRef:    codec.WorkRef{ResourceID: w.id, Version: w.Version, UID: w.UID, Name: w.Name},
		Action:     action,
		SequenceID: w.Seq,
		Status:     w.report(),
	}
	if w.Next == nil || w.State != protocol.Deleting {
		w.unconfirmed = false
	}
	if status.Status != nil && !w.Reported {
		w.Reported = true
		a.keepLocked(w)
	}
	if a.traits.Bundle {
		w.bundleStatusLocked(&status)
	}
	a.cache.Unlock()
	return peer.Encode(a.options.Profile, &status)
}

// create adds the object of a spec, unless the spec is invalid or another source's work has its
// name.
func (w *agentWork) create(spec *codec.Spec) {
	a := w.agent
	a.keepLocked(w)
	w.trace.follow(spec.TraceParent)
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	w.Next, w.LastMeta, w.Problem, w.Unsent, w.Ahead = nil, nil, nil, nil, 0
	w.Relearned = w.Relearned || spec.ResyncID != "" || spec.Action == codec.ActionAnswer
	w.State = protocol.Held
	if spec.Work == nil {
		w.rejectEmpty("nothing was applied")
		return
	}
	if err := clientset.Brief(clientset.SpecErrors(&spec.Work.Spec)); err != nil && spec.DeletionTimestamp == nil {
		w.invalid(err)
		w.reject("InvalidSpec", "the spec is invalid, and nothing was applied: "+err.Error())
		return
	}
	w.Name = spec.Name
	if !crd.NameFits(w.Name) { // a peer may send its resource ID, or any name of its user
		if spec.DeletionTimestamp != nil {
			w.removeLocked()
			return
		}
		w.reject("InvalidSpec", "the name is not valid for a Kubernetes object: nothing was applied")
		return
	}
	if other := a.cache.Get(a.options.ClusterName, w.Name); other != nil {
		if spec.DeletionTimestamp != nil {
			w.removeLocked() // another work has the name, so this work has nothing to clean up
			return
		}
		w.Next = spec
		if !slices.Contains(a.waiting[w.Name], w) {
			a.waiting[w.Name] = append(a.waiting[w.Name], w)
		}
		w.reject("NameConflict", "a work of source "+other.source.name+" has this name on the cluster")
		return
	}
	obj := spec.Work
	obj.Namespace, obj.Name = a.options.ClusterName, w.Name
	obj.UID = types.UID(uuid.NewString())
	w.Created = obj.CreationTimestamp
	if obj.CreationTimestamp.IsZero() {
		obj.CreationTimestamp = metav1.NewTime(a.options.Clock.Now()).Rfc3339Copy()
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
	a.put(w, obj)
}

// ownSpec copies the parts of a waiting spec that create changes: the journal may be writing the
// spec.
func ownSpec(spec *codec.Spec) *codec.Spec {
	own := *spec
	if own.Work != nil {
		obj := *own.Work
		own.Work = &obj
	}
	return &own
}

// reject reports a spec that is not applied. The last valid spec remains.
func (w *agentWork) reject(reason, message string) {
	w.Problem = w.degraded(reason, message)
	w.publishLocked()
}

func (w *agentWork) degraded(reason, message string) *metav1.Condition {
	return &metav1.Condition{
		Type:               workv1.WorkDegraded,
		Status:             metav1.ConditionTrue,
		Reason:             reason,
		Message:            peer.Clip(message),
		LastTransitionTime: metav1.NewTime(w.agent.options.Clock.Now()).Rfc3339Copy(),
	}
}

// rejectEmpty reports a spec without its content: it could not be decoded, or was refused.
func (w *agentWork) rejectEmpty(effect string) {
	if w.Refused > 0 {
		w.reject("SpecRefused", fmt.Sprintf("the work has %d bytes: %v: %s", w.Refused, w.source.account.ErrFull(), effect))
		return
	}
	w.reject("InvalidSpec", "the spec cannot be decoded: "+effect)
}

// take replaces the spec. An equal spec changes at most metadata, and is answered with the status.
func (w *agentWork) take(spec *codec.Spec) {
	w.agent.keepLocked(w)
	w.trace.follow(spec.TraceParent)
	other := w.UID != spec.UID
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	if spec.Work == nil {
		switch {
		case w.Object == nil: // a spec that waits for its name is older
			w.stopWaiting()
			w.Next = nil
		case other: // no generation of this incarnation is applied
			w.Ahead = w.Object.Generation
		}
		w.rejectEmpty("the previous spec stays applied")
		return
	}
	if err := w.newErrors(spec); err != nil {
		if other {
			w.Ahead = w.Object.Generation
		}
		w.invalid(err)
		w.reject("InvalidSpec", "the spec is invalid, and the previous spec stays applied: "+err.Error())
		return
	}
	if w.Object == nil { // an earlier spec was rejected, or the name is taken: then the work keeps its place
		w.create(spec)
		if w.Problem == nil {
			w.publishLocked()
		}
		return
	}
	had, ahead := w.Problem != nil, w.Ahead
	w.Problem, w.Created = nil, spec.Work.CreationTimestamp
	obj := *w.Object
	clientset.KeepEqualManifests(&obj.Spec, &spec.Work.Spec)
	equal := clientset.SameSpec(&obj.Spec, &spec.Work.Spec)
	if !equal {
		obj.Spec = spec.Work.Spec
		peer.DetachFrom(&w.Object.Spec, &obj.Spec)
	}
	w.count(&obj, spec, !equal)
	obj.Labels = mergeKeys(obj.Labels, w.Labels, spec.Work.Labels)
	obj.Annotations = mergeKeys(obj.Annotations, w.Annotations, spec.Work.Annotations)
	obj.OwnerReferences = spec.Work.OwnerReferences
	w.Labels, w.Annotations = spec.Work.Labels, spec.Work.Annotations
	if !equal || obj.Generation != w.Object.Generation || !clientset.SameMetadata(&obj, w.Object) {
		w.agent.put(w, &obj)
	}
	// In the profile ManifestBundle an empty status is sent too, and would replace the source's
	// status. A changed offset of generations changes the report of the same status.
	if (equal || had || w.Ahead != ahead) && (!w.agent.traits.Bundle || w.report() != nil) {
		w.publishLocked()
	}
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

// markDeleting sets the deletionTimestamp. The deletion waits for the object's finalizers.
func (w *agentWork) markDeleting(spec *codec.Spec) {
	w.trace.follow(spec.TraceParent)
	w.UID, w.Version, w.Time = spec.UID, spec.Version, spec.Time
	if w.Object == nil { // its spec could not be used; an earlier process may have applied another spec
		w.create(spec)
		return
	}
	w.State = protocol.Deleting
	w.setRefused(0)
	obj := *w.Object
	if len(obj.Finalizers) == 0 {
		obj.Finalizers = []string{workv1.ManifestWorkFinalizer}
	}
	obj.DeletionTimestamp = spec.DeletionTimestamp
	obj.DeletionGracePeriodSeconds = ptr.To[int64](0)
	w.count(&obj, spec, true)
	w.agent.put(w, &obj)
}

// sameStatus compares statuses as the API server does.
func sameStatus(a, b *workv1.ManifestWorkStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }

// withCondition returns a status with a condition set. It does not change the old status.
func withCondition(status workv1.ManifestWorkStatus, c metav1.Condition) workv1.ManifestWorkStatus {
	conditions := make([]metav1.Condition, 0, len(status.Conditions)+1)
	for _, old := range status.Conditions {
		if old.Type != c.Type {
			conditions = append(conditions, old)
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	status.Conditions = append(conditions, c)
	return status
}

// traces are the traceparents of a work at its agent.
type traces struct {
	spec string // of the spec
	said string // of the last write of a status, if it has one
}

// follow records the traceparent of a new spec.
func (t *traces) follow(traceParent string) { *t = traces{spec: peer.ValidTrace(traceParent)} }
