// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Applier applies the objects of a work. Its methods may be called concurrently, but only one call
// at a time for one AppliedWork.
type Applier struct {
	*cluster
	tracker *Tracker
}

// NewApplier returns an Applier for the inventories of tracker.
func NewApplier(tracker *Tracker) *Applier {
	return &Applier{cluster: tracker.cluster, tracker: tracker}
}

// Apply applies the objects of a work. Before the first write, it records in the inventory which
// objects it is about to write; at the end it records their UIDs. The request that creates an
// object also sets the owner reference. Apply removes the entry of an object that was certainly not
// written. An object with an unknown outcome keeps its entry.
//
// An object that matches its manifest causes no write. Namespaces and CRDs are applied first,
// webhooks and API services last. An object that fails does not stop the others. An object is
// pending while it, or its namespace, is being deleted. A nil element stands for a manifest that
// could not be decoded.
//
// Apply does not change the given objects. It does not send their status, metadata that only the
// API server sets, or owner references that name an AppliedWork.
//
// After [ErrTerminating], [ErrDuplicate], [ErrInvalidInput] or an [*InventoryTooLargeError],
// nothing is applied. Otherwise the error joins those of the change set: [ErrGenerateName],
// [ErrInvalidObject], [ErrChanged], [*AdoptionError], [*OwnershipConflictError],
// [*TypeNotServedError] and those of the API server. The change set is never nil.
func (a *Applier) Apply(
	ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions,
) (*ChangeSet, error) {
	return a.apply(ctx, work, objects, opts, false)
}

// Plan returns the changes that Apply would make, and changes nothing. It makes the requests of
// Apply as dry runs, which need the same rights. Each change has the action and the resulting
// object, and for an existing object also Fields.
//
// An object is pending if the same call would create its kind or its namespace. An object that
// Recreate would delete and create again is reported as created, with the UID of the existing
// object. The errors are those of Apply. The AppliedWork must exist: use the result of
// [Tracker.Ensure].
func (a *Applier) Plan(
	ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions,
) (*ChangeSet, error) {
	return a.apply(ctx, work, objects, opts, true)
}

func (a *Applier) apply(
	ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions, dry bool,
) (*ChangeSet, error) {
	changes := &ChangeSet{}
	opts, err := opts.withDefaults()
	if err := errors.Join(err, opts.Executor.validate(a.opts.Reviews), checkWork(work)); err != nil {
		return changes, err
	}
	run := &applyRun{cluster: a.cluster, tracker: a.tracker, work: work, opts: opts, dry: dry}
	err = run.identify(ctx, objects)
	if err == nil {
		err = run.record(ctx)
	}
	if err != nil && !dry {
		err = a.tracker.refuse(ctx, work, v1alpha1.ConditionApplied, err)
	}
	if err != nil {
		return changes, err
	}
	run.apply(ctx)
	changes.Entries = run.changes(ctx)
	if !dry {
		err = run.confirm(ctx, changes)
		a.announceChanges(work, changes)
	}
	return changes, errors.Join(changes.Err(), err)
}

// identify determines the identity of each object, and how to reach it.
func (r *applyRun) identify(ctx context.Context, objects []*unstructured.Unstructured) error {
	seen := make(map[Key]int, len(objects))
	r.announced = announcedKinds(objects)
	for ordinal, obj := range objects {
		obj = withoutNulls(obj)
		item := &applyItem{source: obj}
		r.items = append(r.items, item)
		key, err := Identify(obj)
		item.change.Key = key
		if err == nil && isInventoryOf(r.work, key, obj.GetLabels()) {
			err = fmt.Errorf("%w: %s is the inventory of this work, which would own itself", ErrInvalidObject, key)
		}
		if err != nil {
			item.finish(ActionFailed, fmt.Errorf("manifest %d: %w", ordinal, err))
			continue
		}
		gvk := obj.GroupVersionKind()
		item.mapping, err = r.resolveExactly(ctx, gvk)
		item.mapped = err == nil
		if a, ok := r.announced[gvk]; ok && !item.mapped {
			item.mapping = a.mapping // served after its CRD is applied
		} else if !item.mapped {
			item.finish(ActionFailed, fmt.Errorf("manifest %d, %s: %w", ordinal, key, err))
			continue
		}
		if err := item.place(ordinal, gvk); err != nil {
			item.finish(ActionFailed, err)
			continue
		}
		key = item.change.Key
		if first, again := seen[key]; again {
			return fmt.Errorf("%w: %s is manifest %d and %d", ErrDuplicate, key, first, ordinal)
		}
		seen[key] = ordinal
		object := r.opts.of(key)
		item.manager, item.options = managerFor(object.FieldManager, r.work.UID), object
		if item.ignored, err = ignoredOf(obj, object); err != nil {
			item.finish(ActionFailed, fmt.Errorf("manifest %d, %s: %w", ordinal, key, err))
		}
	}
	return nil
}

// place sets the entry of an item. A namespaced kind requires a namespace; other kinds lose it.
func (i *applyItem) place(ordinal int, gvk schema.GroupVersionKind) error {
	key := &i.change.Key
	if i.mapping.Namespaced && key.Namespace == "" {
		return fmt.Errorf("%w: manifest %d, %s: a namespaced kind needs a metadata.namespace", ErrInvalidObject, ordinal, key)
	}
	if !i.mapping.Namespaced {
		key.Namespace = ""
	}
	i.id = v1alpha1.ResourceIdentifier{
		Ordinal: ordinal, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Resource: i.mapping.Resource.Resource, Namespace: key.Namespace, Name: key.Name,
	}
	return nil
}

// announcedKinds returns the kinds that CRDs among the objects define.
func announcedKinds(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]announced {
	kinds := map[schema.GroupVersionKind]announced{}
	for i, obj := range objects {
		if obj == nil || obj.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		kind, plural := kindOf(obj)
		for _, version := range servedVersions(obj) {
			gvk := kind.WithVersion(version)
			kinds[gvk] = announced{crd: i, mapping: discovery.Mapping{
				Resource: gvk.GroupVersion().WithResource(plural), Kind: kind.Kind,
				Namespaced: strings.EqualFold(textAt(obj, "spec", "scope"), "Namespaced"),
			}}
		}
	}
	return kinds
}

func (r *applyRun) changes(ctx context.Context) []Change {
	changes := make([]Change, len(r.items))
	for i, item := range r.items {
		if !item.isFinished() {
			item.finish(ActionPending, ctx.Err())
		}
		changes[i] = item.change
	}
	return changes
}

const (
	// establishLimit is the time that Apply waits for the CRDs of a work to be served.
	establishLimit  = 15 * time.Second
	establishPeriod = 50 * time.Millisecond
)

func (r *applyRun) apply(ctx context.Context) {
	waves := byRank(len(r.items), func(i int) schema.GroupKind { return r.items[i].change.Key.GroupKind() })
	for _, wave := range waves {
		r.resolveLate(ctx, wave)
		parallel(ctx, len(wave), r.opts.Concurrency, func(n int) {
			if item := r.items[wave[n]]; !item.isFinished() {
				r.applyOne(ctx, item)
			}
		})
	}
}

// resolveLate finds and reads the objects of kinds whose CRDs an earlier wave has applied.
func (r *applyRun) resolveLate(ctx context.Context, wave []int) {
	var late []*applyItem
	errs := map[schema.GroupVersionKind]error{}
	limit := time.Now().Add(establishLimit) // for all kinds together
	for _, i := range wave {
		item := r.items[i]
		if item.isFinished() || item.mapped {
			continue
		}
		gvk := item.change.Key.GroupKind().WithVersion(item.id.Version)
		if r.dry {
			item.finish(ActionPending, fmt.Errorf("%s cannot be checked before its CRD is applied", item.change.Key))
			continue
		}
		if _, known := errs[gvk]; !known {
			errs[gvk] = r.awaitKind(ctx, gvk, item, limit)
		}
		err := errs[gvk]
		if err == nil {
			item.mapping, err = r.resolveExactly(ctx, gvk)
		}
		if err != nil {
			item.fail(fmt.Errorf("apply %s: %w", item.change.Key, err))
			continue
		}
		item.mapped = true
		late = append(late, item)
	}
	r.read(ctx, late)
}

// awaitKind waits until discovery and requests for objects know the kind of an applied CRD.
func (r *applyRun) awaitKind(ctx context.Context, gvk schema.GroupVersionKind, item *applyItem, limit time.Time) error {
	if crd := r.items[r.announced[gvk].crd].change; crd.Action == ActionFailed || crd.Action == ActionPending {
		return fmt.Errorf("%w (%s is in the work and %s)", &TypeNotServedError{Kind: gvk.GroupKind()}, crd.Key, crd.Action)
	}
	var notServed error
	timeout := max(time.Until(limit), establishPeriod)
	err := wait.PollUntilContextTimeout(ctx, establishPeriod, timeout, true, func(context.Context) (bool, error) {
		r.kinds.Forget(gvk.Group)
		m, err := r.resolveExactly(ctx, gvk)
		if err == nil {
			if f := r.get(ctx, target{m, item.id.Namespace, item.id.Name}); IsTypeNotServed(f.err) {
				err = f.err
			}
		}
		if IsTypeNotServed(err) {
			notServed = err
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && notServed != nil {
		return notServed
	}
	return err
}
