// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// record reads what is there and records what is about to be applied. No object is written before it has returned nil.
func (r *applyRun) record(ctx context.Context) error {
	inv, err := r.tracker.load(ctx, r.work)
	if err != nil {
		return err
	}
	if inv.terminating() {
		return fmt.Errorf("%w: %s", ErrTerminating, r.work.Name)
	}
	r.read(ctx, r.items)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.inventory, err = r.tracker.update(ctx, r.work, inv, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, r.work.Name)
		}
		for _, item := range r.items {
			if !item.done {
				inv.put(item.intent(inv))
			}
		}
		return nil
	})
	return err
}

// intent is the entry of an object that is about to be applied. One that does not exist is about to get another UID: the
// recorded one goes, so that a client that still knows the old object does not take this for it and forget the entry.
func (i *applyItem) intent(inv *inventory) v1alpha1.AppliedResourceMeta {
	e := v1alpha1.AppliedResourceMeta{ResourceIdentifier: i.id}
	if i.live != nil {
		e.UID = inv.uid(i.change.Key)
	}
	return e
}

// read reads those of the objects that can be reached by now.
func (r *applyRun) read(ctx context.Context, all []*applyItem) {
	var targets []target
	var items []*applyItem
	for _, item := range all {
		if !item.done && item.mapped {
			targets = append(targets, target{item.mapping, item.id.Namespace, item.id.Name})
			items = append(items, item)
		}
	}
	for i, f := range r.cluster.read(ctx, targets, r.opts.Concurrency) {
		if f.err != nil {
			items[i].finish(ActionFailed, fmt.Errorf("read %s: %w", items[i].change.Key, f.err))
			continue
		}
		items[i].live = f.obj
	}
}

// confirm records the UIDs of what was applied, and the condition. It adds to the inventory as it is by then: another
// client may have changed it.
func (r *applyRun) confirm(ctx context.Context, changes *ChangeSet) error {
	var applied []v1alpha1.AppliedResourceMeta
	for _, item := range r.items {
		switch item.change.Action {
		case ActionCreated, ActionConfigured, ActionUnchanged, ActionAdopted:
			applied = append(applied, v1alpha1.AppliedResourceMeta{ResourceIdentifier: item.id, UID: item.change.UID})
		}
	}
	_, err := r.tracker.update(ctx, r.work, r.inventory, func(inv *inventory) error {
		for _, e := range applied {
			inv.put(e)
		}
		r.tracker.setCondition(inv, outcome(v1alpha1.ConditionApplied, inv.main().Generation, changes))
		return nil
	})
	if err != nil {
		return fmt.Errorf("the objects were applied, and are recorded as intended: %w", err)
	}
	return nil
}
