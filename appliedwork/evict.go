// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// defaultEvictionGrace is that of OCM's work agent.
const defaultEvictionGrace = time.Hour

// EvictOptions are the options of [Collector.Evict]. The zero value is useful.
type EvictOptions struct {
	// GracePeriod is how long after the first call the objects are deleted. Defaults to 60 minutes.
	GracePeriod time.Duration
	// Teardown is how they are deleted then.
	Teardown TeardownOptions
}

// Eviction is what became of an eviction.
type Eviction struct {
	// Since is when it began.
	Since time.Time
	// Remaining is how long it is until the objects are deleted; 0 when that has begun.
	Remaining time.Duration
	// Changes are those of Teardown; nil before.
	Changes *ChangeSet
}

// Evict deletes the objects of an AppliedWork after a grace period that is kept in the AppliedWork: a restart does not begin
// it anew, and [Collector.CancelEviction] ends it. Call it again after Remaining. It is for a hub that has said that it does
// not want this work here any more. Not to reach the hub is no such thing: nothing is deleted by losing it, because nothing
// calls Evict. The error is as for Teardown.
func (c *Collector) Evict(ctx context.Context, work *v1alpha1.AppliedWork, opts EvictOptions) (*Eviction, error) {
	if opts.GracePeriod < 0 {
		return nil, fmt.Errorf("%w: EvictOptions.GracePeriod is negative", ErrInvalidInput)
	}
	grace := opts.GracePeriod
	if grace == 0 {
		grace = defaultEvictionGrace
	}
	now := c.opts.Clock.Now()
	since := now
	_, err := c.tracker.update(ctx, work, nil, func(inv *inventory) error {
		began, ok := evictionStart(inv.main())
		if ok {
			since = began
			return nil
		}
		if inv.terminating() {
			since = time.Time{} // it has begun
			return nil
		}
		since = now
		if err := c.tracker.annotate(ctx, inv.shards[0], v1alpha1.AnnotationEvictionStart, now.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		start := metav1.NewTime(now.Truncate(time.Second))
		inv.main().Status.EvictionStartTime = &start
		inv.shards[0].changed = true
		c.tracker.setCondition(inv, metav1.Condition{
			Type: v1alpha1.ConditionEvicting, Status: metav1.ConditionTrue, Reason: reasonGracePeriod, ObservedGeneration: inv.main().Generation,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("evict AppliedWork %s: %w", work.Name, err)
	}
	// A clock that was set back must not make it longer than it is.
	if remaining := min(grace-now.Sub(since), grace); remaining > 0 {
		return &Eviction{Since: since, Remaining: remaining}, nil
	}
	changes, err := c.Teardown(ctx, work, opts.Teardown)
	return &Eviction{Since: since, Changes: changes}, err
}

// CancelEviction ends an eviction whose grace period is not over; without one there is nothing to do. The error is
// [ErrTerminating] when the objects are being deleted already.
func (c *Collector) CancelEviction(ctx context.Context, work *v1alpha1.AppliedWork) error {
	_, err := c.tracker.update(ctx, work, nil, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, work.Name)
		}
		if inv.main().Annotations[v1alpha1.AnnotationEvictionStart] != "" {
			if err := c.tracker.annotate(ctx, inv.shards[0], v1alpha1.AnnotationEvictionStart, nil); err != nil {
				return err
			}
		}
		if inv.main().Status.EvictionStartTime != nil {
			inv.main().Status.EvictionStartTime = nil
			inv.shards[0].changed = true
		}
		c.tracker.clearCondition(inv, v1alpha1.ConditionEvicting)
		return nil
	})
	return err
}

// evictionStart returns when an eviction began.
func evictionStart(work *v1alpha1.AppliedWork) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, work.Annotations[v1alpha1.AnnotationEvictionStart])
	return at, err == nil
}
