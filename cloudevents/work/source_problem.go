// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"slices"
	"strings"

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

// statusRefused is the reason of a problem with what the agent has reported, not with what is to be sent to it.
const statusRefused = "StatusRefused"

// ofStatus reports whether the problem is with the agent's last status. It ends when a good one is accepted.
func (p *problem) ofStatus() bool { return p != nil && p.Reason == statusRefused }

// newProblem makes a condition Degraded for a work that has an object.
func (w *sourceWork) newProblem(reason, message string) problem {
	return problem{Condition: metav1.Condition{
		Type:               workv1.WorkDegraded,
		Status:             metav1.ConditionTrue,
		Reason:             reason,
		Message:            clip(message),
		ObservedGeneration: w.Object.Generation,
		LastTransitionTime: metav1.NewTime(w.source.options.Clock.Now()).Rfc3339Copy(),
	}}
}

// clip cuts a message to what the schema allows a condition to have.
func clip(message string) string {
	const most = 32 << 10
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most-len("…")], "") + "…"
}

// refuseStatus shows that the agent's last status was refused, next to what its last good one said. A problem with the
// spec is more important. The source's mutex is held.
func (w *sourceWork) refuseStatus(err error) {
	if w.Object == nil || w.problem != nil && (!w.problem.ofStatus() || w.problem.Message == clip(err.Error())) {
		return
	}
	obj := *w.Object
	if w.problem != nil {
		obj.Status = w.problem.uncover(obj.Status)
	}
	var covering *problem
	obj.Status, covering = w.newProblem(statusRefused, err.Error()).cover(obj.Status)
	w.setProblem(covering)
	w.hash = ""
	w.source.put(w, &obj)
}

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
	w.troubled.Store(p != nil)
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
	if w.Object == nil || w.problem != nil && !w.problem.ofStatus() {
		return
	}
	obj := *w.Object
	if w.problem != nil {
		obj.Status = w.problem.uncover(obj.Status)
	}
	var covering *problem
	obj.Status, covering = w.newProblem(unsentReason(err), err.Error()).cover(obj.Status)
	w.setProblem(covering)
	s.put(w, &obj)
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
	if w.Object == nil || w.problem == nil || w.problem.ofStatus() || !w.offered {
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
