// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// addFinalizer adds the finalizer before anything is applied, so that a deleted work waits for this
// agent.
func (c *Controller) addFinalizer(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		return w, nil
	}
	return c.patchFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workv1.ManifestWorkFinalizer))
}

func (c *Controller) removeFinalizer(ctx context.Context, w *workv1.ManifestWork) error {
	rest := slices.DeleteFunc(slices.Clone(w.Finalizers),
		func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	_, err := c.patchFinalizers(ctx, w, rest)
	return err
}

// patchFinalizers replaces the finalizers, if the hub still has this version of the work.
func (c *Controller) patchFinalizers(
	ctx context.Context, w *workv1.ManifestWork, finalizers []string,
) (*workv1.ManifestWork, error) {
	return c.patch(ctx, w, map[string]any{"finalizers": finalizers}, nil)
}

// report writes the status of a work if it changed and the hub still has this version of the work.
// A conflict is an error: the latest work is then served again.
func (c *Controller) report(ctx context.Context, w *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	_, err := c.reported(ctx, w, next)
	return err
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
	c.o.Observe(Event{Work: w.Name, Generation: w.Generation, Err: err})
	next.ResourceStatus = w.Status.ResourceStatus
	was := meta.FindStatusCondition(w.Status.Conditions, status.ManifestsReported)
	if was != nil {
		next.Conditions = append(next.Conditions, *was) // keeps its transition time
	}
	set(&next.Conditions, w.Generation, status.ManifestsReported, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: status.ReasonStatusRefused,
		Message: status.Bounded(fmt.Sprintf("The status of the manifests is outdated: %v: if it is too large, "+
			"split the work", err)),
	})
	return errors.Join(err, c.report(ctx, w, next))
}

// degrade reports that a work is degraded for a reason that the status builder does not have.
func (c *Controller) degrade(ctx context.Context, name, reason, message string) error {
	w, err := c.latest(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	return c.report(ctx, w, withCondition(w, workv1.WorkDegraded,
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

// reported is report, and returns the updated work.
func (c *Controller) reported(
	ctx context.Context, w *workv1.ManifestWork, next workv1.ManifestWorkStatus,
) (*workv1.ManifestWork, error) {
	if equality.Semantic.DeepEqual(w.Status, next) {
		return w, nil
	}
	// Lists in a merge patch replace the existing lists. The fields are explicit because an empty
	// list must do that too.
	return c.patch(ctx, w, nil, map[string]any{
		"conditions":     next.Conditions,
		"resourceStatus": map[string]any{"manifests": next.ResourceStatus.Manifests},
	})
}

func (c *Controller) patch(
	ctx context.Context, w *workv1.ManifestWork, metadata, status map[string]any,
) (*workv1.ManifestWork, error) {
	content := map[string]any{"metadata": map[string]any{"uid": w.UID, "resourceVersion": w.ResourceVersion}}
	for name, value := range metadata {
		content["metadata"].(map[string]any)[name] = value
	}
	var subresources []string
	if status != nil {
		content["status"] = status
		subresources = []string{"status"}
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	written, err := c.o.Works.WorkV1().ManifestWorks(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, subresources...)
	if err == nil {
		c.wrote(w, written)
	}
	return written, err
}

// write is a written work that the informer may not have received yet.
type write struct {
	before map[string]bool // resource versions
	work   *workv1.ManifestWork
}

// wrote records a write, and keeps earlier writes that the informer may not have received yet.
func (c *Controller) wrote(before, after *workv1.ManifestWork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.written[before.Name]
	if !ok || last.work.ResourceVersion != before.ResourceVersion {
		last.before = map[string]bool{}
	}
	last.before[before.ResourceVersion] = true
	c.written[before.Name] = write{last.before, after}
}

// latest returns the latest known version of a work. The informer may be behind the writes of this
// controller, and a write based on an old version is a conflict.
func (c *Controller) latest(name string) (*workv1.ManifestWork, error) {
	cached, err := c.lister.Get(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.written[name]; ok && err == nil && cached.UID == last.work.UID &&
		last.before[cached.ResourceVersion] {
		return last.work, nil
	}
	delete(c.written, name) // the informer has caught up
	return cached, err
}
