// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/cut"
)

// Reasons of conditions and events.
const (
	reasonDone           = "Done"
	reasonPending        = "Pending"
	reasonFailed         = "Failed"
	reasonTerminating    = "Terminating"
	reasonGracePeriod    = "GracePeriod"
	eventTypeWarning     = "Warning"
	maxConditionMessage  = 1024
	maxEventsOfOneChange = 20
)

// refusals are the errors that refuse an object or a call, with the reasons of their events.
var refusals = []struct {
	is     func(error) bool
	reason string
}{
	{isA[*AdoptionError], "AdoptionRefused"},
	{isA[*OwnershipConflictError], "OwnershipConflict"},
	{isA[*TypeNotServedError], "TypeNotServed"},
	{isA[*PruneBlockedError], "PruneBlocked"},
	{isA[*InventoryTooLargeError], "InventoryTooLarge"},
	{is(ErrTerminating), reasonTerminating},
	{is(ErrNameCollision), "NameCollision"},
	{is(ErrEmptyDesired), "EmptyDesired"},
	{is(ErrDuplicate), "Duplicate"},
	{is(ErrGenerateName), "InvalidObject"},
	{is(ErrInvalidObject), "InvalidObject"},
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// reasonOf returns the reason of an event for a refusal, or an empty string for another error.
func reasonOf(err error) string {
	for _, r := range refusals {
		if r.is(err) {
			return r.reason
		}
	}
	return ""
}

// refused emits an event if err is a refusal.
func (c *cluster) refused(work *v1alpha1.AppliedWork, err error) {
	if reason := reasonOf(err); reason != "" && c.opts.Events != nil {
		c.opts.Events.Eventf(work, eventTypeWarning, reason, "%s", err)
	}
}

// refuse reports a refused call with an event and a condition, and returns err.
func (t *Tracker) refuse(ctx context.Context, work *v1alpha1.AppliedWork, kind string, err error) error {
	reason := reasonOf(err)
	if t.refused(work, err); reason == "" || reason == reasonTerminating {
		return err
	}
	_, unsaid := t.update(ctx, work, nil, func(inv *inventory) error {
		t.setCondition(inv, kind, false, reason, messageOf(err))
		return nil
	})
	return errors.Join(err, unsaid)
}

// announceChanges emits an event for each refusal of a change set, up to maxEventsOfOneChange.
func (c *cluster) announceChanges(work *v1alpha1.AppliedWork, changes *ChangeSet) {
	n := 0
	for _, e := range changes.Entries {
		if e.Err != nil && reasonOf(e.Err) != "" && n < maxEventsOfOneChange {
			n++
			c.refused(work, e.Err)
		}
	}
}

// outcome returns the condition that reports a change set, the same for the same results.
func outcome(changes *ChangeSet) (done bool, reason, message string) {
	if changes.Done() {
		return true, reasonDone, ""
	}
	reason = reasonPending
	if changes.Count(ActionFailed, ActionBlocked) > 0 {
		reason = reasonFailed
	}
	for _, e := range changes.Entries {
		if e.Err != nil && (e.Action == ActionFailed || e.Action == ActionBlocked || reason == reasonPending) {
			return false, cmp.Or(reasonOf(e.Err), reason), messageOf(e.Err)
		}
	}
	return false, reason, ""
}

func messageOf(err error) string { return cut.Within(err.Error(), maxConditionMessage) }

// setCondition sets a condition, and marks the AppliedWork as changed if the CRD keeps conditions.
func (t *Tracker) setCondition(inv *inventory, kind string, is bool, reason, message string) {
	condition := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: inv.main().Generation,
		LastTransitionTime: metav1.NewTime(t.opts.Clock.Now().Truncate(time.Second)),
	}
	if is {
		condition.Status = metav1.ConditionTrue
	}
	if meta.SetStatusCondition(&inv.main().Status.Conditions, condition) && !t.pruned.Load() {
		inv.shards[0].changed = true
	}
}

func (t *Tracker) clearCondition(inv *inventory, kind string) {
	if meta.RemoveStatusCondition(&inv.main().Status.Conditions, kind) {
		inv.shards[0].changed = true
	}
}
