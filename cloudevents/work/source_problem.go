// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// problem is why a work is not published, as a condition.
type problem struct {
	metav1.Condition
	// Covered is the condition of this type that the agent has reported.
	Covered *metav1.Condition `json:"covered,omitempty"`
}

// ConditionDelivered is the type of the condition that a source adds to the status of a work whose present version its
// agent has not confirmed for 30 s, with status False and reason NotConfirmed. It goes when the agent confirms the version.
const ConditionDelivered = "Delivered"

// cover returns a reported status with the problem in it, and the problem as it is then.
func (p problem) cover(status workv1.ManifestWorkStatus) (workv1.ManifestWorkStatus, *problem) {
	p.Covered = nil
	status.Conditions = slices.Clone(status.Conditions)
	for i, c := range status.Conditions {
		if c.Type != p.Type {
			continue
		}
		shown := p.Condition
		if c.Status == p.Status {
			shown.LastTransitionTime = c.LastTransitionTime
		}
		status.Conditions[i], p.Covered = shown, &c
		return status, &p
	}
	status.Conditions = append(status.Conditions, p.Condition)
	return status, &p
}

// uncover returns what the agent has reported of a status with the problem in it.
func (p *problem) uncover(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	status.Conditions = slices.Clone(status.Conditions)
	i := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == p.Type })
	switch {
	case i < 0:
	case p.Covered != nil:
		status.Conditions[i] = *p.Covered
	default:
		status.Conditions = slices.Delete(status.Conditions, i, i+1)
	}
	return status
}

// setProblem is called with the store's lock held.
func (w *sourceWork) setProblem(p *problem) {
	w.problem = p
	w.troubled.Store(w.degraded())
}

var _ cloudevents.Refusable = &sourceWork{}

// Settled shows on the work that it cannot be sent, since no agent will ever report on it, or that it was sent after all.
func (w *sourceWork) Settled(err error) {
	switch {
	case err == nil:
		w.published()
	case !errors.Is(err, cloudevents.ErrConnectionLost):
		w.unpublished(err)
	}
}

// Refused shows on the work that it waits for another connection.
func (w *sourceWork) Refused(err error) { w.unpublished(err) }

func (w *sourceWork) unpublished(err error) {
	s := w.source
	s.store.Lock()
	defer s.store.Unlock()
	w.offered = false
	if w.Object == nil || w.degraded() {
		return
	}
	s.showProblem(w, metav1.Condition{
		Type:               workv1.WorkDegraded,
		Status:             metav1.ConditionTrue,
		Reason:             unsentReason(err),
		Message:            err.Error(),
		ObservedGeneration: w.Object.Generation,
		LastTransitionTime: metav1.NewTime(s.options.Clock.Now()).Rfc3339Copy(),
	})
}

// degraded reports whether the problem is that the work is not published.
func (w *sourceWork) degraded() bool {
	return w.problem != nil && w.problem.Type == workv1.WorkDegraded
}

// showProblem shows a problem in the place of the one before.
func (s *Source) showProblem(w *sourceWork, c metav1.Condition) {
	obj := *w.Object
	if w.problem != nil {
		obj.Status = w.problem.uncover(obj.Status)
	}
	p := problem{Condition: c}
	var covering *problem
	obj.Status, covering = p.cover(obj.Status)
	w.setProblem(covering)
	s.put(w, &obj)
}

// showLate shows that the agent has not confirmed a version for long.
func (s *Source) showLate(w *sourceWork, now time.Time) {
	heard := "never"
	if at := w.cluster.delivery.heard; !at.IsZero() {
		heard = at.UTC().Format(time.RFC3339)
	}
	s.showProblem(w, metav1.Condition{
		Type:   ConditionDelivered,
		Status: metav1.ConditionFalse,
		Reason: "NotConfirmed",
		Message: fmt.Sprintf("the agent of cluster %s has not confirmed this version since %s; last message from it: %s",
			w.cluster.name, time.Unix(0, w.since).UTC().Format(time.RFC3339), heard),
		ObservedGeneration: w.Object.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	})
}

// published takes the problem back. An answer, or an item of the outbox that had nothing to say, may have come to its end
// without an event: then it tells nothing.
func (w *sourceWork) published() {
	if !w.troubled.Load() {
		return
	}
	s := w.source
	s.store.Lock()
	defer s.store.Unlock()
	if w.Object == nil || !w.degraded() || !w.offered {
		return
	}
	obj := *w.Object
	obj.Status = w.problem.uncover(obj.Status)
	w.setProblem(nil)
	s.put(w, &obj)
}

// unsentReason is the reason of a condition that says why an event was not published.
func unsentReason(err error) string {
	var tooLarge *cloudevents.TooLargeError
	var malformed *codec.Error
	switch {
	case errors.As(err, &tooLarge):
		return "TooLarge"
	case errors.As(err, &malformed):
		return "NotEncodable"
	}
	return "NotPublished"
}
