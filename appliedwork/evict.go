// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// defaultEvictionGrace is the default of OCM's work agent.
const defaultEvictionGrace = time.Hour

// EvictOptions are the options of [Collector.Evict]. The zero value is useful.
type EvictOptions struct {
	// GracePeriod is the time from the first call to the deletion of the objects. Defaults to 60
	// minutes.
	GracePeriod time.Duration
	// Teardown are the options of the deletion.
	Teardown TeardownOptions
}

// Eviction is the state of an eviction.
type Eviction struct {
	// Since is when the eviction began.
	Since time.Time
	// Remaining is the time until the objects are deleted, or 0 if the deletion has begun.
	Remaining time.Duration
	// Changes are those of Teardown, or nil before the deletion.
	Changes *ChangeSet
}

func (o EvictOptions) withDefaults() (EvictOptions, error) {
	switch {
	case o.GracePeriod < 0:
		return o, fmt.Errorf("%w: EvictOptions.GracePeriod: %v: must not be negative", ErrInvalidInput, o.GracePeriod)
	case o.GracePeriod == 0:
		o.GracePeriod = defaultEvictionGrace
	}
	_, err := o.Teardown.prune() // report invalid options now, not after the grace period
	return o, err
}

// Evict deletes the objects of an AppliedWork after a grace period. Use it when the hub reports
// that the work does not belong on this cluster any more, but not because the hub is unreachable.
// Call it again after [Eviction].Remaining.
//
// The AppliedWork stores the start of the period, so a restart does not extend it.
// [Collector.CancelEviction] cancels it. The period depends on the wall clock. A stored start in
// the future restarts the period. A clock that was behind at the start shortens it. The error is as
// for Teardown, or [ErrTerminating] if the AppliedWork is being released.
func (c *Collector) Evict(ctx context.Context, work *v1alpha1.AppliedWork, opts EvictOptions) (*Eviction, error) {
	opts, err := opts.withDefaults()
	if err := errors.Join(err, checkWork(work)); err != nil {
		return nil, err
	}
	now := c.opts.Clock.Now()
	var since time.Time
	var over, releasing bool
	_, err = c.tracker.update(ctx, work, nil, func(inv *inventory) error {
		began, ok := evictionStart(inv.main())
		since, over = began, inv.terminating()
		if releasing = inv.main().Annotations[v1alpha1.AnnotationTerminating] == byRelease; releasing {
			return fmt.Errorf("%w: %s is being released", ErrTerminating, work.Name)
		}
		if over {
			return nil
		}
		if !ok || began.After(now) {
			since = now
			start := now.UTC().Format(time.RFC3339)
			if err := c.tracker.annotate(ctx, inv.shards[0], v1alpha1.AnnotationEvictionStart, start); err != nil {
				return err
			}
		}
		c.tracker.setEvicting(inv, since)
		return nil
	})
	if errors.Is(err, ErrTerminating) && !releasing {
		return &Eviction{Changes: &ChangeSet{}}, nil // gone, as for Teardown
	}
	if err != nil {
		return nil, fmt.Errorf("evict AppliedWork %s: %w", work.Name, err)
	}
	if remaining := opts.GracePeriod - now.Sub(since); remaining > 0 && !over {
		return &Eviction{Since: since, Remaining: remaining}, nil
	}
	changes, err := c.Teardown(ctx, work, opts.Teardown)
	return &Eviction{Since: since, Changes: changes}, err
}

// setEvicting records an eviction in the status, for display.
func (t *Tracker) setEvicting(inv *inventory, since time.Time) {
	start := metav1.NewTime(since.Truncate(time.Second))
	if old := inv.main().Status.EvictionStartTime; !old.Equal(&start) {
		inv.main().Status.EvictionStartTime = &start
		inv.shards[0].changed = inv.shards[0].changed || !t.pruned.Load()
	}
	t.setCondition(inv, v1alpha1.ConditionEvicting, true, reasonGracePeriod, "")
}

// CancelEviction cancels an eviction during its grace period. Without an eviction it does nothing.
// The error is [ErrTerminating] if the objects are already being deleted.
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

func evictionStart(work *v1alpha1.AppliedWork) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, work.Annotations[v1alpha1.AnnotationEvictionStart])
	return at, err == nil
}
