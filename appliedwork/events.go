// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Reasons of conditions and events.
const (
	reasonDone           = "Done"
	reasonPending        = "Pending"
	reasonFailed         = "Failed"
	reasonAdoption       = "AdoptionRefused"
	reasonConflict       = "OwnershipConflict"
	reasonNotServed      = "TypeNotServed"
	reasonBlocked        = "PruneBlocked"
	reasonInvalid        = "InvalidObject"
	reasonTooLarge       = "InventoryTooLarge"
	reasonTerminating    = "Terminating"
	reasonCollision      = "NameCollision"
	reasonEmpty          = "EmptyDesired"
	reasonDuplicate      = "Duplicate"
	reasonGracePeriod    = "GracePeriod"
	reasonCancelled      = "Cancelled"
	eventTypeWarning     = "Warning"
	maxConditionMessage  = 1024
	maxEventsOfOneChange = 20
)

// reasonOf returns the reason of an event for a refusal. It is empty for other errors, such as a
// lost connection.
func reasonOf(err error) string {
	var adoption *AdoptionError
	var conflict *OwnershipConflictError
	var notServed *TypeNotServedError
	var blocked *PruneBlockedError
	var tooLarge *InventoryTooLargeError
	switch {
	case errors.As(err, &adoption):
		return reasonAdoption
	case errors.As(err, &conflict):
		return reasonConflict
	case errors.As(err, &notServed):
		return reasonNotServed
	case errors.As(err, &blocked):
		return reasonBlocked
	case errors.As(err, &tooLarge):
		return reasonTooLarge
	case errors.Is(err, ErrTerminating):
		return reasonTerminating
	case errors.Is(err, ErrNameCollision):
		return reasonCollision
	case errors.Is(err, ErrEmptyDesired):
		return reasonEmpty
	case errors.Is(err, ErrDuplicate):
		return reasonDuplicate
	case errors.Is(err, ErrGenerateName), errors.Is(err, ErrInvalidObject):
		return reasonInvalid
	}
	return ""
}

// refused emits an event if err is a refusal.
func (c *cluster) refused(work *v1alpha1.AppliedWork, err error) {
	if reason := reasonOf(err); reason != "" && c.opts.Events != nil {
		c.opts.Events.Eventf(work, eventTypeWarning, reason, "%s", err)
	}
}

// refuse reports a call that was refused with an event and a condition. It returns err, joined with
// the error of writing the condition.
func (t *Tracker) refuse(ctx context.Context, work *v1alpha1.AppliedWork, kind string, err error) error {
	reason := reasonOf(err)
	if t.refused(work, err); reason == "" || reason == reasonTerminating {
		return err
	}
	_, unsaid := t.update(ctx, work, nil, func(inv *inventory) error {
		t.setCondition(inv, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: messageOf(err),
			ObservedGeneration: inv.main().Generation,
		})
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

// outcome returns the condition that reports a change set.
func outcome(kind string, generation int64, changes *ChangeSet) metav1.Condition {
	condition := metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reasonDone, ObservedGeneration: generation,
	}
	if changes.Done() {
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, reasonPending
	if changes.Count(ActionFailed, ActionBlocked) > 0 {
		condition.Reason = reasonFailed
	}
	// The condition must be the same each time. Otherwise every attempt would write it.
	for _, e := range changes.Entries {
		if e.Err != nil && (e.Action == ActionFailed || e.Action == ActionBlocked || condition.Reason == reasonPending) {
			if reason := reasonOf(e.Err); reason != "" {
				condition.Reason = reason
			}
			condition.Message = messageOf(e.Err)
			break
		}
	}
	return condition
}

func messageOf(err error) string {
	text := err.Error()
	if len(text) > maxConditionMessage { // without half a character at the end
		text = strings.ToValidUTF8(text[:maxConditionMessage], "")
	}
	return text
}

// setCondition marks the AppliedWork as changed if the condition is new or different and the CRD
// keeps conditions.
func (t *Tracker) setCondition(inv *inventory, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(t.opts.Clock.Now().Truncate(time.Second))
	if meta.SetStatusCondition(&inv.main().Status.Conditions, condition) && !t.bare.pruned.Load() {
		inv.shards[0].changed = true
	}
}

// clearCondition removes a condition.
func (t *Tracker) clearCondition(inv *inventory, kind string) {
	if meta.RemoveStatusCondition(&inv.main().Status.Conditions, kind) {
		inv.shards[0].changed = true
	}
}
