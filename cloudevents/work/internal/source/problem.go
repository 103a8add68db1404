// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
)

// problem is a condition that the source adds to a work: the work is not published, it is not
// confirmed, or its last status was refused.
type problem struct {
	metav1.Condition
	// Covered is the condition of this type that the agent has reported.
	Covered *metav1.Condition `json:"covered,omitempty"`
}

// conditionDelivered is the ConditionDelivered of package work.
const conditionDelivered = "Delivered"

// statusRefused is the reason of a problem with the agent's status.
const statusRefused = "StatusRefused"

// ofStatus reports whether the problem is with the agent's last status. The problem ends when a
// status is accepted.
func (p *problem) ofStatus() bool { return p != nil && p.Reason == statusRefused }

// late reports whether the problem is that the agent has not confirmed the version.
func (p *problem) late() bool { return p != nil && p.Type == conditionDelivered }

// unsent reports whether the problem is that the work is not published.
func (p *problem) unsent() bool { return p != nil && !p.ofStatus() && !p.late() }

// showProblemLocked replaces the problem of a work and shows it in the status.
func (w *sourceWork) showProblemLocked(c metav1.Condition) {
	obj := *w.Object
	if w.problem != nil {
		obj.Status = w.problem.uncover(obj.Status)
	}
	c.Message, c.ObservedGeneration = peer.Clip(c.Message), w.Object.Generation
	c.LastTransitionTime = metav1.NewTime(w.cluster.now()).Rfc3339Copy()
	var covering *problem
	obj.Status, covering = problem{Condition: c}.cover(obj.Status)
	w.setProblemLocked(covering)
	w.putLocked(&obj)
}

// hideProblemLocked removes the problem from the work and its status.
func (w *sourceWork) hideProblemLocked() {
	obj := *w.Object
	obj.Status = w.problem.uncover(obj.Status)
	w.setProblemLocked(nil)
	w.putLocked(&obj)
}

// refuseStatusLocked shows that the agent's last status was refused. A problem with the spec has
// precedence.
func (w *sourceWork) refuseStatusLocked(err error) {
	if w.Object == nil || w.problem.unsent() || w.problem.ofStatus() && w.problem.Message == peer.Clip(err.Error()) {
		return
	}
	w.showProblemLocked(metav1.Condition{
		Type: workv1.WorkDegraded, Status: metav1.ConditionTrue, Reason: statusRefused, Message: err.Error(),
	})
}

// showLateLocked shows that the agent has not confirmed a version for lateAfter.
func (w *sourceWork) showLateLocked() {
	last := "never"
	if at := w.cluster.lastReport; !at.IsZero() {
		last = at.UTC().Format(time.RFC3339)
	}
	w.showProblemLocked(metav1.Condition{
		Type: conditionDelivered, Status: metav1.ConditionFalse, Reason: "NotConfirmed",
		Message: fmt.Sprintf("the agent of cluster %s has not confirmed this version since %s; last message from it: %s",
			w.cluster.name, time.Unix(0, w.since).UTC().Format(time.RFC3339), last),
	})
}

// cover returns a reported status with the problem, and the problem with the condition that it
// covers.
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

// uncover removes the problem from a status and returns the status that the agent reported.
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

// setProblemLocked sets the problem of a work. The source's mutex must be locked.
func (w *sourceWork) setProblemLocked(p *problem) {
	w.problem = p
	w.troubled.Store(p.unsent())
}

var _ engine.Refusable = &sourceWork{}

// Settled shows a problem on a work that cannot be sent, because no agent will ever report on it.
// It removes the problem when the work was sent.
func (w *sourceWork) Settled(err error) {
	w.endPublish(err)
	switch {
	case err == nil:
		w.published()
	case !errors.Is(err, cloudevents.ErrConnectionLost):
		w.Refused(err)
	}
}

// Refused shows on the work that it is not sent, or waits for another connection.
func (w *sourceWork) Refused(err error) {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.offered = false
	if w.Object == nil || w.problem.unsent() {
		return
	}
	w.showProblemLocked(metav1.Condition{
		Type: workv1.WorkDegraded, Status: metav1.ConditionTrue, Reason: peer.UnsentReason(err), Message: err.Error(),
	})
}

// published removes the problem if an event of the work was made since the failure. An item of the
// outbox may also end without an event: then the problem stays.
func (w *sourceWork) published() {
	if !w.troubled.Load() {
		return
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if w.Object != nil && w.problem.unsent() && w.offered {
		w.hideProblemLocked()
	}
}
