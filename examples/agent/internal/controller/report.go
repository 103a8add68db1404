// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// setFinalizers replaces the finalizers, if the hub still has this version of the work.
func (c *Controller) setFinalizers(ctx context.Context, w *workv1.ManifestWork, finalizers []string) error {
	return c.patch(ctx, w, map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion, "finalizers": finalizers,
	}})
}

// report writes the status of a work if it changed and the hub still has this version of the work.
// A conflict is an error: the latest work is then served again.
func (c *Controller) report(ctx context.Context, w *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	if equality.Semantic.DeepEqual(w.Status, next) {
		return nil
	}
	// Lists in a merge patch replace the existing lists. The fields are explicit because an empty
	// list must do that too.
	return c.patch(ctx, w, map[string]any{
		"metadata": map[string]any{"uid": w.UID, "resourceVersion": w.ResourceVersion},
		"status": map[string]any{
			"conditions":     next.Conditions,
			"resourceStatus": map[string]any{"manifests": next.ResourceStatus.Manifests},
		},
	}, "status")
}

// patch writes a work, and replaces w by the result.
func (c *Controller) patch(ctx context.Context, w *workv1.ManifestWork, content any, subresources ...string) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	written, err := c.o.Works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, subresources...)
	if err != nil {
		return err
	}
	c.latest.Mutation(written)
	written.DeepCopyInto(w)
	return nil
}

// reportOrSay calls report. If the hub refuses the status of the manifests, for example because it
// is too large, it reports that and keeps the previous status of the manifests. The error is why
// the status was not written.
func (c *Controller) reportOrSay(ctx context.Context, w *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	err := c.report(ctx, w, next)
	if err == nil || !refused(err) {
		return err
	}
	err = fmt.Errorf("write the status of the manifests: %w", err)
	c.observe(Event{Work: w.Name, Generation: w.Generation, Err: err})
	next.ResourceStatus = w.Status.ResourceStatus
	was := meta.FindStatusCondition(w.Status.Conditions, status.ManifestsReported)
	if was != nil {
		next.Conditions = append(next.Conditions, *was) // keeps its transition time
	}
	status.NewSetter(&next.Conditions, w.Generation, time.Now()).Set(status.ManifestsReported, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: status.ReasonStatusRefused,
		Message: status.Bounded(fmt.Sprintf("The status of the manifests is outdated: %v: if it is too large, "+
			"split the work", err)),
	})
	return errors.Join(err, c.report(ctx, w, next))
}

// degrade reports that a work is degraded for a reason that the status builder does not have.
func (c *Controller) degrade(ctx context.Context, name, reason, message string) error {
	w, err := c.get(name)
	if err != nil || w == nil {
		return err
	}
	return c.report(ctx, w.DeepCopy(), withCondition(w, workv1.WorkDegraded,
		metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}))
}

// refused reports whether a server has rejected the content of a request.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}
