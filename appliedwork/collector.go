// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Collector ends AppliedWorks. Deleting an AppliedWork is enough to delete its objects, sooner or
// later and in no order. A Collector deletes in order, respects policies and guards, and reports
// the reasons that prevent a deletion.
//
// Its methods may be called concurrently, but only one call at a time for one AppliedWork. Use one
// Collector for the whole process: like a [Pruner], it stores since when a type has not been
// served.
type Collector struct {
	*cluster
	tracker *Tracker
	pruner  *Pruner
}

// NewCollector returns a Collector for the inventories of tracker.
func NewCollector(tracker *Tracker) *Collector {
	return &Collector{cluster: tracker.cluster, tracker: tracker, pruner: NewPruner(tracker)}
}

// TeardownOptions are the options of [Collector.Teardown]. The zero value is useful.
type TeardownOptions struct {
	// Propagation is the deletion policy for the dependents of the objects. Defaults to Background.
	Propagation metav1.DeletionPropagation
	// Policies decide which objects stay: by default, only adopted objects. If Policies.For keeps
	// an object that another AppliedWork has too, the object gets the annotation
	// multicluster.x-k8s.io/prune: disabled, so the other AppliedWork keeps it as well.
	Policies Policies
	// Concurrency is the number of objects that are deleted at a time, from 1 to 256. Defaults to
	// 16.
	Concurrency int
}

func (o TeardownOptions) prune() (PruneOptions, error) {
	return PruneOptions{Propagation: o.Propagation, Policies: o.Policies, Concurrency: o.Concurrency}.withDefaults()
}

// ReleaseOptions are the options of [Collector.Release].
type ReleaseOptions struct {
	// Concurrency is the number of objects that are released at a time, from 1 to 256. Defaults to
	// 16.
	Concurrency int
}

// Teardown deletes the objects of an AppliedWork as [Pruner.Prune] does, and then the AppliedWork.
// After the start of Teardown, Apply refuses the AppliedWork, also in other processes.
//
// Teardown is one pass and does not wait. Call it again while the change set is not Done, after a
// delay or after [Collector.WaitGone]. If the AppliedWork is gone, the change set is empty.
// Teardown makes a request for each object, as fast as the limits of [Options].Client allow.
//
// The guards are those of Prune, but a protected object loses our owner reference and stays. The
// error joins those of the change set, or is an [ErrInvalidInput] or an error of the API server.
// The change set is never nil.
func (c *Collector) Teardown(
	ctx context.Context, work *v1alpha1.AppliedWork, opts TeardownOptions,
) (*ChangeSet, error) {
	prune, err := opts.prune()
	if err != nil {
		return &ChangeSet{}, err
	}
	return c.end(ctx, work, byTeardown, prune, metav1.DeletePropagationBackground)
}

// Release removes our owner references from the objects of an AppliedWork, and then deletes the
// AppliedWork. The objects stay. Like Teardown, Release is one pass. It keeps the AppliedWork while
// an object could not be released.
func (c *Collector) Release(ctx context.Context, work *v1alpha1.AppliedWork, opts ReleaseOptions) (*ChangeSet, error) {
	prune, err := PruneOptions{Policies: Policies{Default: PolicyOrphan}, Concurrency: opts.Concurrency}.withDefaults()
	if err != nil {
		return &ChangeSet{}, err
	}
	// With Orphan, an object with our reference that is missing in the inventory stays too.
	return c.end(ctx, work, byRelease, prune, metav1.DeletePropagationOrphan)
}

// end ends an AppliedWork. If entries are recorded meanwhile, it starts again.
func (c *Collector) end(
	ctx context.Context, work *v1alpha1.AppliedWork, how string, opts PruneOptions,
	propagation metav1.DeletionPropagation,
) (*ChangeSet, error) {
	for attempt := 0; ; attempt++ {
		inv, err := c.mark(ctx, work, how, opts.Policies)
		if errors.Is(err, ErrTerminating) {
			return &ChangeSet{}, nil // gone
		}
		if err != nil {
			return &ChangeSet{}, err
		}
		run := &pruneRun{Pruner: c.pruner, work: work, opts: opts, mode: modeTeardown, inventory: inv}
		if how == byRelease {
			run.mode = modeRelease
		}
		if err := run.run(ctx, inv.entries()); err != nil {
			return &ChangeSet{}, err
		}
		changes := &ChangeSet{Entries: run.changes(ctx)}
		c.announceChanges(work, changes)
		if !changes.Done() {
			err := run.forget(ctx, v1alpha1.ConditionPruned, changes)
			return changes, errors.Join(changes.Err(), err)
		}
		err = c.remove(ctx, inv, propagation)
		if err == nil {
			return changes, nil
		}
		if !errors.Is(err, errMoved) || attempt == attempts {
			return changes, fmt.Errorf("delete AppliedWork %s: %w", work.Name, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return changes, err
		}
	}
}

// mark records in the AppliedWork that it ends, so that no object is applied for it any more.
func (c *Collector) mark(
	ctx context.Context, work *v1alpha1.AppliedWork, how string, policies Policies,
) (*inventory, error) {
	return c.tracker.update(ctx, work, nil, func(inv *inventory) error {
		how := how
		if how == byTeardown && inv.keeps(policies) {
			how = byPartialTeardown
		}
		if inv.main().Annotations[v1alpha1.AnnotationTerminating] != how {
			err := c.tracker.annotate(ctx, inv.shards[0], v1alpha1.AnnotationTerminating, how)
			if err != nil {
				return err
			}
		}
		c.tracker.setCondition(inv, v1alpha1.ConditionTerminating, true, how, "")
		return nil
	})
}

// remove deletes the AppliedWorks of an inventory as they were read, the main one last.
func (c *Collector) remove(ctx context.Context, inv *inventory, propagation metav1.DeletionPropagation) error {
	for i := len(inv.shards) - 1; i >= 0; i-- {
		s := inv.shards[i]
		if s.raw == nil {
			continue
		}
		uid, rv := s.raw.GetUID(), s.raw.GetResourceVersion()
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}}
		if i == 0 {
			options.PropagationPolicy = &propagation
		}
		switch err := c.tracker.works().Delete(ctx, s.raw.GetName(), options); {
		case apierrors.IsConflict(err):
			return errMoved
		case err != nil && (!apierrors.IsNotFound(err) || IsTypeNotServed(err)):
			return err
		}
	}
	return nil
}
