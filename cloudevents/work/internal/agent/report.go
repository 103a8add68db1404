// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// publishLocked puts the work into the outbox with a status newer than all before.
func (w *agentWork) publishLocked() {
	w.advanceLocked()
	w.hash = ""
	w.sendLocked()
}

// statusAcceptedLocked records the sequence of a status that the source has accepted. A sequence
// above all of this process is from an earlier process, which may have more statuses in flight.
func (w *agentWork) statusAcceptedLocked(seq int64) {
	if seq > w.Seq {
		w.Seq, w.Inherited = seq, true
		w.keepLocked()
	}
}

// advanceLocked assigns the sequence of the next status. An earlier process with a faster clock may
// have assigned the next number too, and two statuses with one number would look like one status.
// So advanceLocked skips some numbers.
func (w *agentWork) advanceLocked() {
	w.keepLocked()
	now, skip := w.source.records.options.Clock.Now(), int64(0)
	if w.source.records.traits.Bundle {
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

// reportLocked returns the status to publish. nil means that the event has only UID and version.
func (w *agentWork) reportLocked() *workv1.ManifestWorkStatus {
	var status workv1.ManifestWorkStatus
	if w.Object != nil && w.Unsent == nil {
		status = w.Object.Status
	}
	status = countedBack(status, w.Ahead)
	if problem := w.problemLocked(); problem != nil && w.State != protocol.Tombstone {
		status = withCondition(status, *problem)
	}
	if w.State == protocol.Tombstone {
		status = withCondition(status, metav1.Condition{
			Type:               codec.ConditionDeleted,
			Status:             metav1.ConditionTrue,
			Reason:             "ManifestsDeleted",
			Message:            "the work is gone from cluster " + w.source.records.options.ClusterName,
			LastTransitionTime: metav1.NewTime(w.Removed).Rfc3339Copy(),
		})
	}
	if peer.EmptyStatus(&status) && !w.Reported {
		return nil
	}
	return &status
}

// statusHashLocked returns the hash of the reported status. It is empty if there is nothing to
// report, unless the profile is ManifestBundle: its peers hash an empty status too.
func (w *agentWork) statusHashLocked() (string, error) {
	if w.hash != "" {
		return w.hash, nil
	}
	r, status := w.source.records, w.reportLocked()
	if !r.traits.Bundle && (status == nil || peer.EmptyStatus(status)) {
		return "", nil
	}
	hash, err := r.options.Profile.StatusHash(status)
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
	w.endPublish(err)
	if err == nil || errors.Is(err, cloudevents.ErrConnectionLost) {
		return
	}
	r := w.source.records
	r.cache.Lock()
	defer r.cache.Unlock()
	if w.Unsent == nil || w.Unsent != w.problemLocked() { // otherwise the engine has logged it
		w.Unsent = degraded(r.options.Clock.Now(), peer.UnsentReason(err), "the status was not published: "+err.Error())
		w.publishLocked()
	}
}

// problemLocked returns the condition that is added to the reported status: the later of Problem
// and Unsent, or nil.
func (w *agentWork) problemLocked() *metav1.Condition {
	if w.Unsent == nil || w.Problem != nil && w.Unsent.LastTransitionTime.Before(&w.Problem.LastTransitionTime) {
		return w.Problem
	}
	return w.Unsent
}

func (w *agentWork) message(resyncID string, action codec.Action) (cloudevents.Message, error) {
	r := w.source.records
	r.cache.Lock()
	if !w.isRecordedLocked() {
		r.cache.Unlock()
		return cloudevents.Message{}, nil // an expired tombstone
	}
	w.healLocked(r.bounds())
	if !w.saving.Send() { // store first, then publish
		r.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	status := codec.Status{
		Header:     r.header(w.source.name),
		WorkRef:    w.ref(),
		Action:     action,
		SequenceID: w.Seq,
		Status:     w.reportLocked(),
	}
	status.ResyncID = resyncID
	w.publishTraceLocked(&status)
	if w.Next == nil || w.State != protocol.Deleting {
		w.unconfirmed = false
	}
	if status.Status != nil && !w.Reported {
		w.Reported = true
		w.keepLocked()
	}
	if r.traits.Bundle {
		w.bundleStatusLocked(&status)
	}
	r.cache.Unlock()
	return peer.Encode(r.options.Profile, &status)
}

func degraded(now time.Time, reason, message string) *metav1.Condition {
	return &metav1.Condition{
		Type:               workv1.WorkDegraded,
		Status:             metav1.ConditionTrue,
		Reason:             reason,
		Message:            peer.Clip(message),
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
}

// bundleStatusLocked adds the fields that a status needs in the profile ManifestBundle: a sequence
// and metadata.
func (w *agentWork) bundleStatusLocked(s *codec.Status) {
	if s.SequenceID == 0 { // no status was published before, and the format requires a sequence
		w.advanceLocked()
		s.SequenceID = w.Seq
	}
	meta := w.LastMeta
	if w.Object != nil {
		meta = &w.Object.ObjectMeta
	}
	if meta != nil {
		out := *meta
		out.CreationTimestamp = w.Created
		out.Generation -= w.Ahead
		s.Metadata = &out
	}
}

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

// statusAnswer is one status in an answer.
type statusAnswer struct {
	work     *agentWork
	resyncID string
	begun    bool // Message or Settled was called
}

func (s *statusAnswer) Message() (cloudevents.Message, error) {
	s.begin()
	m, err := s.work.message(s.resyncID, codec.ActionAnswer)
	if m.Event != nil {
		s.work.source.records.metrics.CountAnswer(peer.Sent)
	}
	return m, err
}

// Settled is called without Message if the connection ended first.
func (s *statusAnswer) Settled(err error) {
	s.begin()
	s.work.endPublish(err)
}

func (s *statusAnswer) begin() {
	if !s.begun {
		s.begun = true
		s.work.answering.Store(false)
	}
}
