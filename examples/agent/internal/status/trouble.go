// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// ReasonChangedByOthers is the reason of the condition Contested.
const ReasonChangedByOthers = "ChangedByOthers"

// setTrouble sets the conditions of a work that exist only while there is a problem.
func setTrouble(ctx context.Context, conditions Setter, w *workv1.ManifestWork, r *spoke.Result) {
	conditions.Optional(RulesWithinLimits, withinLimits(ctx))
	conditions.Optional(DeleteOptionUsable, deleteOption(w))
	conditions.Optional(ObjectsWatched, watched(r))
	conditions.Optional(Contested, contested(r))
}

func withinLimits(ctx context.Context) *metav1.Condition {
	if !guard.Exceeded(ctx) {
		return nil
	}
	return new(no(ReasonLimitExceeded, fmt.Sprintf("Not all rules were evaluated: %v", guard.ErrExceeded)))
}

func deleteOption(w *workv1.ManifestWork) *metav1.Condition {
	if w.Spec.DeleteOption == nil || w.Spec.DeleteOption.TTLSecondsAfterFinished == nil ||
		*w.Spec.DeleteOption.TTLSecondsAfterFinished >= 0 {
		return nil
	}
	return new(no("InvalidTTL", fmt.Sprintf("spec.deleteOption.ttlSecondsAfterFinished is %d: must be 0 or more",
		*w.Spec.DeleteOption.TTLSecondsAfterFinished)))
}

func watched(r *spoke.Result) *metav1.Condition {
	if len(r.Unwatched) == 0 {
		return nil
	}
	return new(no("WatchForbidden", Bounded(fmt.Sprintf("The agent may not watch objects of these kinds, and polls "+
		"them: %s: grant it watch", strings.Join(r.Unwatched, ", ")))))
}

func contested(r *spoke.Result) *metav1.Condition {
	n := 0
	for i := range r.Outcomes {
		if r.Outcomes[i].Contested {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return new(yes(ReasonChangedByOthers, fmt.Sprintf(
		"%d of %d resources are changed by others as often as they are applied", n, len(r.Outcomes))))
}

// manifestContested returns the condition Contested, with the other works that own the object.
func manifestContested(o *spoke.Outcome) *metav1.Condition {
	if !o.Contested {
		return nil
	}
	c := new(yes(ReasonChangedByOthers, "Others change the resource as often as it is applied. It is applied with growing "+
		"pauses: let only one of them own the fields"))
	if rivals := o.Rivals(); len(rivals) > 0 {
		c.Message = Bounded(fmt.Sprintf("%s. These works have it too: %s", c.Message, strings.Join(rivals, ", ")))
	}
	return c
}
