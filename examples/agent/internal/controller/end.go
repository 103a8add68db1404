// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
	"github.com/spokewire/sdk-go/internal/wait"
)

// finalize removes a deleted work from the cluster, and then removes its finalizer.
func (c *Controller) finalize(ctx context.Context, w *workv1.ManifestWork) (time.Duration, error) {
	if !slices.Contains(w.Finalizers, workv1.ManifestWorkFinalizer) {
		c.watches.drop(ctx, w.Name)
		return 0, nil
	}
	removal, err := c.o.Cluster.Remove(ctx, w)
	if ctx.Err() != nil {
		return 0, nil
	}
	if !removal.Done {
		c.watches.set(ctx, w.Name, removal.Left)
		next := withCondition(w, workv1.WorkDeleting, metav1.Condition{
			Status: metav1.ConditionTrue, Reason: "ResourcesNotGone", Message: stillThere(removal, err),
		})
		return leavingAgain, errors.Join(err, ignoreNotFound(c.report(ctx, w, next)))
	}
	c.watches.drop(ctx, w.Name)
	gone := withCondition(w, status.Deleted, metav1.Condition{
		Status: metav1.ConditionTrue, Reason: "ManifestsDeleted", Message: "no object of the work is left on cluster " +
			c.o.ClusterName,
	})
	if err := c.report(ctx, w, gone); err != nil {
		return 0, ignoreNotFound(err)
	}
	others := slices.DeleteFunc(w.Finalizers, func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	if err := c.setFinalizers(ctx, w, others); err != nil {
		return 0, ignoreNotFound(err)
	}
	c.observe(Event{Work: w.Name, Generation: w.Generation, Deleted: true, Changed: true})
	return 0, nil
}

// expire ends a work that has finished for longer than its ttlSecondsAfterFinished. It deletes the
// work on the hub. If an agent cannot do that, as over a broker, it removes the objects, and the
// status asks the source to delete the work.
func (c *Controller) expire(ctx context.Context, w *workv1.ManifestWork) (time.Duration, error) {
	err := c.o.Works.WorkV1().ManifestWorks(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
	})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return 0, nil // finalize continues
	case !apierrors.IsMethodNotSupported(err) && !apierrors.IsForbidden(err):
		return 0, fmt.Errorf("delete the work that has finished: %w", err)
	}
	removal, err := c.o.Cluster.Remove(ctx, w)
	if ctx.Err() != nil {
		return 0, nil
	}
	c.watches.set(ctx, w.Name, removal.Left)
	message := "the work has finished and its ttlSecondsAfterFinished has passed: delete the work"
	if !removal.Done {
		message = fmt.Sprintf("%s: %s", message, stillThere(removal, err))
	}
	expired := metav1.Condition{Status: metav1.ConditionFalse, Reason: status.ReasonExpired, Message: message}
	next := withCondition(w, workv1.WorkAvailable, expired)
	for i := range next.ResourceStatus.Manifests {
		if m := &next.ResourceStatus.Manifests[i]; removal.Done {
			status.NewSetter(&m.Conditions, w.Generation, time.Now()).Set(workv1.ManifestAvailable, expired)
		}
	}
	if err := errors.Join(err, c.report(ctx, w, next)); err != nil {
		return 0, err
	}
	if !removal.Done {
		return leavingAgain, nil
	}
	if removal.Changes != nil && len(removal.Changes.Entries) > 0 {
		c.observe(Event{Work: w.Name, Generation: w.Generation, Deleted: true, Changed: true})
	}
	return 0, nil
}

// findOrphans queues works that have an AppliedWork on the cluster and do not exist on the hub.
func (c *Controller) findOrphans(ctx context.Context) {
	for pause := retryAfter; ctx.Err() == nil; pause = min(2*pause, retryAtMost) {
		names, err := c.o.Cluster.Recorded(ctx, c.o.ClusterName)
		if err == nil {
			for _, name := range names {
				if w, err := c.get(name); err == nil && w == nil {
					c.queue.Add(name)
				}
			}
			return
		}
		klog.FromContext(ctx).Error(err, "Failed to list the objects of deleted works")
		_ = wait.Sleep(ctx, clock.RealClock{}, pause)
	}
}

// evict removes the objects of a work that the hub does not have, after a grace period. The hub
// must confirm that: an unreachable hub is no reason.
func (c *Controller) evict(ctx context.Context, name string) (time.Duration, error) {
	c.watches.drop(ctx, name)
	c.forget(name)
	if !c.o.Evicts {
		return 0, nil
	}
	_, err := c.o.Works.WorkV1().ManifestWorks(c.o.ClusterName).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || appliedwork.IsTypeNotServed(err) {
		return 0, err // it exists, and the informer will report it; or the hub does not serve works yet
	}
	left, removal, err := c.o.Cluster.Evict(ctx, c.o.ClusterName, name)
	switch {
	case errors.As(err, new(*spoke.ForeignError)), errors.As(err, new(*spoke.ExecutorError)):
		c.observe(Event{Work: name, Err: err})
		return 0, nil
	case err != nil:
		return 0, err
	case left > 0:
		return left, nil
	case !removal.Done:
		c.watches.set(ctx, name, removal.Left)
		return leavingAgain, nil
	}
	if removal.Changes != nil {
		c.observe(Event{Work: name, Deleted: true, Changed: true})
	}
	return 0, nil
}

// stillThere returns the message for a removal that is not complete.
func stillThere(r spoke.Removal, err error) string {
	if err != nil {
		return status.Bounded(err.Error())
	}
	n := r.Changes.Count(appliedwork.ActionPending, appliedwork.ActionBlocked, appliedwork.ActionFailed)
	for _, change := range r.Changes.Entries {
		if change.Err != nil {
			return status.Bounded(fmt.Sprintf("%s still there: %s: %v", resourcesAre(n), change.Key, change.Err))
		}
	}
	return resourcesAre(n) + " still there"
}

func resourcesAre(n int) string {
	if n == 1 {
		return "1 resource is"
	}
	return fmt.Sprintf("%d resources are", n)
}

func withCondition(w *workv1.ManifestWork, kind string, condition metav1.Condition) workv1.ManifestWorkStatus {
	next := *w.Status.DeepCopy()
	status.NewSetter(&next.Conditions, w.Generation, time.Now()).Set(kind, condition)
	return next
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
