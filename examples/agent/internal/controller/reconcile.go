// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
	"github.com/spokewire/sdk-go/examples/internal/label"
)

// reconcile serves one work. After is the time after which the work must be served again without a
// change; 0 means never. A work that needs more than memory bytes has grown: it returns to the
// queue.
func (c *Controller) reconcile(ctx context.Context, name string, memory int) (after time.Duration, err error) {
	cached, err := c.get(name)
	switch {
	case err != nil:
		return 0, err
	case cached == nil:
		return c.evict(ctx, name)
	case manifest.Memory(cached) > memory:
		c.queue.Add(name)
		return 0, nil
	}
	w := cached.DeepCopy()
	if w.DeletionTimestamp != nil {
		return c.finalize(ctx, w)
	}
	if left := c.pauseLeft(w, time.Now()); left > 0 {
		return left, nil
	}
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) { // before anything is applied
		if err := c.setFinalizers(ctx, w, append(w.Finalizers, workv1.ManifestWorkFinalizer)); err != nil {
			return 0, err
		}
	}
	if left, ok := lifetime(w, time.Now()); ok && left <= 0 {
		return c.expire(ctx, w)
	}
	return c.apply(ctx, w)
}

// apply applies a work to the cluster, watches its objects, and reports its status.
func (c *Controller) apply(ctx context.Context, w *workv1.ManifestWork) (time.Duration, error) {
	served, wait, ends := c.o.Cluster.Begin(ctx, w)
	if wait > 0 {
		klog.FromContext(ctx).Info("Postponed a work that was being served when earlier agents ended", "ends", ends,
			"wait", wait)
		return wait, c.degrade(ctx, w.Name, status.ReasonPostponed, fmt.Sprintf(
			"The work waits until the others are served. The agent ended %d times while it served the work: see the "+
				"agent's log", ends))
	}
	defer served()
	defer c.metrics.took(time.Now())
	ctx, rules := guard.WithBudget(ctx)
	result := c.o.Cluster.Apply(ctx, w, status.Kept(w))
	if ctx.Err() != nil {
		return 0, nil // the failures are caused by the stop
	}
	watched := c.watches.set(ctx, w.Name, result.Watched())
	result.Unwatched = c.watches.refused(w.Name)
	over := c.judge(w, &result, time.Now())
	defer func() { c.spent(w, rules.Spent(), time.Now()) }()
	_, failed := result.Failed()
	err := errors.Join(failed, result.PruneErr)
	c.observe(Event{
		Work: w.Name, Generation: w.Generation, Application: application(&result), Record: result.Record,
		Changed: result.Changed, Err: err,
	})

	next, after := c.builder.Next(ctx, w, &result, time.Now())
	if reported := c.reportOrSay(ctx, w, next); reported != nil {
		return 0, reported
	}
	if left, ok := lifetime(w, time.Now()); ok {
		after = sooner(after, max(left, time.Millisecond))
	}
	after = sooner(after, over)
	if !watched || polls(&result) || len(result.Unwatched) > 0 {
		after = sooner(after, c.o.PollInterval)
	}
	if len(result.Leaving) > 0 {
		after = sooner(after, leavingAgain)
	}
	return after, err
}

// application returns the application of the first labelled manifest, or "".
func application(r *spoke.Result) string {
	for i := range r.Outcomes {
		if o := r.Outcomes[i].Object; o != nil && o.GetLabels()[label.Application] != "" {
			return o.GetLabels()[label.Application]
		}
	}
	return ""
}

// polls reports whether the work has polled objects, or an object that its executor may not read,
// which may change.
func polls(r *spoke.Result) bool {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Config.Poll || o.Denied {
			return true
		}
	}
	return false
}

// sooner returns the lesser of two durations, where 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// lifetime returns the remaining time of a finished work with a ttlSecondsAfterFinished. A TTL of 0
// expires at once; a negative one is ignored.
func lifetime(w *workv1.ManifestWork, now time.Time) (left time.Duration, limited bool) {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkComplete)
	if w.Spec.DeleteOption == nil || w.Spec.DeleteOption.TTLSecondsAfterFinished == nil || c == nil ||
		c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation ||
		*w.Spec.DeleteOption.TTLSecondsAfterFinished < 0 {
		return 0, false
	}
	seconds := min(*w.Spec.DeleteOption.TTLSecondsAfterFinished, int64(1<<32)) // larger values would overflow
	return c.LastTransitionTime.Add(time.Duration(seconds) * time.Second).Sub(now), true
}

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
	return c.condition(ctx, name, workv1.WorkDegraded,
		metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

// condition sets a condition of a work.
func (c *Controller) condition(ctx context.Context, name, kind string, to metav1.Condition) error {
	w, err := c.get(name)
	if err != nil || w == nil {
		return err
	}
	return c.report(ctx, w.DeepCopy(), withCondition(w, kind, to))
}

// refused reports whether a server has rejected the content of a request.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}
