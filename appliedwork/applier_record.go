// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// record reads the live objects, and records those that are about to be applied, before any write.
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
	for _, item := range r.items {
		switch {
		case item.isFinished():
		case item.options.Strategy == StrategyReadOnly:
			item.change.Live = item.live
			item.finish(ActionRetained, nil)
		case item.mapped: // refused objects are not recorded: an entry is a claim for others
			r.inspect(item, inv.entry(item.change.Key))
		}
	}
	r.findGone(ctx)
	r.findKeepers(ctx, inv)
	r.authorizeNew(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.dry {
		r.inventory = inv
		return nil
	}
	r.inventory, err = r.tracker.update(ctx, r.work, inv, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, r.work.Name)
		}
		for _, item := range r.items {
			if !item.isFinished() {
				_, known := inv.find(item.change.Key)
				item.isNew = !known || item.live == nil && inv.entry(item.change.Key).UID != ""
				inv.put(item.intent(inv))
			}
		}
		return r.tracker.describeSet(ctx, inv)
	})
	return err
}

// findKeepers finds the Namespaces and CRDs of the call with an object that stays: one that the
// policies list, or that the work has dropped. If that is unknown, their owner references do not
// change.
func (r *applyRun) findKeepers(ctx context.Context, inv *inventory) {
	desired := map[Key]bool{}
	var containers []*applyItem
	for _, item := range r.items {
		desired[item.change.Key] = true
		if !item.isFinished() && isContainer(item.change.Key) {
			containers = append(containers, item)
		}
	}
	r.keepers = map[Key]bool{}
	keep := func(of v1alpha1.ResourceIdentifier, stays func(*applyItem) bool) {
		for _, item := range containers {
			if item.contains(of) && stays(item) {
				r.keepers[item.change.Key] = true
			}
		}
	}
	always := func(*applyItem) bool { return true }
	for id := range r.opts.Policies.orphans {
		keep(id, always)
	}
	asItIs := func(item *applyItem) bool { return item.live != nil && !IsOwnedBy(item.live, r.work.UID) }
	var targets []target
	var entries []v1alpha1.AppliedResourceMeta
	for _, e := range inv.entries() {
		isIn := func(item *applyItem) bool { return item.contains(e.ResourceIdentifier) }
		if desired[KeyOf(e.ResourceIdentifier)] || !slices.ContainsFunc(containers, isIn) {
			continue
		}
		m, err := r.resolve(ctx, e.ResourceIdentifier)
		if err != nil {
			keep(e.ResourceIdentifier, asItIs)
			continue
		}
		targets, entries = append(targets, target{m, e.Namespace, e.Name}), append(entries, e)
	}
	for i, f := range r.cluster.read(ctx, targets, r.opts.Concurrency) {
		e := entries[i]
		switch {
		case f.err != nil:
			keep(e.ResourceIdentifier, asItIs)
		case f.obj != nil && (isKeptFrom(f.obj, r.work.UID) || !IsOwnedBy(f.obj, r.work.UID) ||
			r.opts.Policies.of(e.ResourceIdentifier, e.Adopted || isAdopted(f.obj, r.work.UID)) == PolicyOrphan):
			keep(e.ResourceIdentifier, always)
		}
	}
}

// intent returns the entry of an object that is about to be applied. With the UID of an earlier
// object, another client could remove the entry of the new one.
func (i *applyItem) intent(inv *inventory) v1alpha1.AppliedResourceMeta {
	e := v1alpha1.AppliedResourceMeta{ResourceIdentifier: i.id}
	if i.live != nil {
		e.UID, e.Adopted = inv.entry(i.change.Key).UID, i.adopted
	}
	return e
}

func (r *applyRun) read(ctx context.Context, all []*applyItem) {
	var targets []target
	var items []*applyItem
	for _, item := range all {
		if !item.isFinished() && item.mapped {
			targets = append(targets, item.target())
			items = append(items, item)
		}
	}
	for i, f := range r.cluster.read(ctx, targets, r.opts.Concurrency) {
		if f.err != nil {
			items[i].finish(ActionFailed, fmt.Errorf("read %s: %w", items[i].change.Key, r.precisely(ctx, items[i], f.err)))
			continue
		}
		items[i].live = f.obj
	}
}

// confirmLimit is the time for recording the results after the context has ended.
const confirmLimit = 2 * time.Second

// confirm records the UIDs of applied objects, and removes the entries of refused ones.
func (r *applyRun) confirm(ctx context.Context, changes *ChangeSet) error {
	var applied, refused []v1alpha1.AppliedResourceMeta
	for _, item := range r.items {
		key := item.change.Key
		switch {
		case item.written == writeDone:
			applied = append(applied, v1alpha1.AppliedResourceMeta{
				ResourceIdentifier: item.id, UID: item.change.UID, Adopted: item.adopted,
			})
			r.intents.forget(r.work.UID, key)
		case item.written == writeRefused && !item.ours:
			e, known := v1alpha1.AppliedResourceMeta{ResourceIdentifier: item.id}, false
			if p, ok := r.inventory.find(key); ok && !item.isNew {
				known, e = true, *r.inventory.at(p)
			}
			if e.UID != "" || !known || r.intents.settled(r.work.UID, key, false) {
				refused = append(refused, e)
			}
		default:
			r.intents.forget(r.work.UID, key)
		}
	}
	if ctx.Err() != nil { // record the results anyway
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), confirmLimit)
		defer cancel()
	}
	_, err := r.tracker.update(ctx, r.work, r.inventory, func(inv *inventory) error {
		for _, e := range applied {
			inv.put(e)
		}
		inv.remove(refused)
		done, reason, message := outcome(changes)
		r.tracker.setCondition(inv, v1alpha1.ConditionApplied, done, reason, message)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the UIDs of the applied objects: %w", err)
	}
	return nil
}
