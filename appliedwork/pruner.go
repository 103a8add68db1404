// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Pruner deletes objects that were applied for a work and are not desired any more. Its methods may
// be called concurrently, but only one call at a time for one AppliedWork. Use one Pruner for the
// whole process: it stores since when a type has not been served.
type Pruner struct {
	*cluster
	tracker *Tracker

	mu       sync.Mutex
	unserved map[schema.GroupKind]*absence
}

// absence records since when, and how often, discovery reported a type as not served.
type absence struct {
	since time.Time
	last  time.Time
	times int
}

// NewPruner returns a Pruner for the inventories of tracker.
func NewPruner(tracker *Tracker) *Pruner {
	return &Pruner{cluster: tracker.cluster, tracker: tracker, unserved: map[schema.GroupKind]*absence{}}
}

// PruneOptions are the options of [Pruner.Prune]. The zero value is useful.
type PruneOptions struct {
	// Propagation is the deletion policy for the dependents of the objects. Defaults to Background.
	Propagation metav1.DeletionPropagation
	// Policies decide which objects stay: by default, only adopted objects.
	Policies Policies
	// ByKey are the options of [ApplyOptions].ByKey. A desired object with [StrategyReadOnly] is
	// released if the work applied it before.
	ByKey map[Key]ObjectOptions
	// AllowEmpty allows an empty list of desired objects, which deletes all objects. Without it, an
	// empty list is an [ErrEmptyDesired] if the inventory has entries, because it is usually a
	// mistake.
	AllowEmpty bool
	// Concurrency is the number of objects that are deleted at a time, from 1 to 256. Defaults to
	// 16.
	Concurrency int
}

func (o PruneOptions) withDefaults() (PruneOptions, error) {
	var err error
	if o.Concurrency, err = concurrencyOf(o.Concurrency); err != nil {
		return o, err
	}
	switch o.Propagation {
	case "":
		o.Propagation = metav1.DeletePropagationBackground
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
	default:
		return o, fmt.Errorf("%w: Propagation: %q: must be Background, Foreground or Orphan", ErrInvalidInput, o.Propagation)
	}
	return o, o.Policies.validate()
}

// Plan returns the changes that Prune would make, and changes nothing. The AppliedWork must exist:
// use the result of [Tracker.Ensure].
func (p *Pruner) Plan(
	ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions,
) (*ChangeSet, error) {
	return p.prune(ctx, work, desired, opts, true)
}

// Prune deletes the recorded objects that are not desired, in the reverse order of Apply.
// [DecideDeletion] decides about each object. Prune deletes only objects with our owner reference
// that have not changed since the decision. An object with another owner loses our reference and
// stays. An object that could not be deleted keeps its entry, and delays only the deletion of its
// Namespace and its CRD.
//
// Prune a work only after an Apply that is Done: Prune does not check the result of Apply.
//
// A nil element stands for a manifest that could not be decoded, and may describe any recorded
// object. Prune deletes nothing while there is a nil element, an object that [Identify] refuses, or
// an object without the namespace that its kind needs.
//
// A deleted object is pending until it is gone. If its type is not served, it is pending until
// discovery has reported that for [Options].UnservedGrace and its CRD does not exist.
//
// A Namespace stays while it contains unmanaged objects: see [Policies].Unmanaged. To find them,
// Prune lists the metadata of each namespaced kind in the Namespace. A CRD stays while one of its
// objects lacks our owner reference or has another owner.
//
// After [ErrEmptyDesired], [ErrTerminating] or [ErrInvalidInput], nothing is deleted. Otherwise the
// error joins those of the change set: a [*PruneBlockedError] for each object that a guard keeps,
// and those of the API server. The change set is never nil, and has no entries for desired objects.
func (p *Pruner) Prune(
	ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions,
) (*ChangeSet, error) {
	return p.prune(ctx, work, desired, opts, false)
}

func (p *Pruner) prune(
	ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions, dry bool,
) (*ChangeSet, error) {
	changes := &ChangeSet{}
	opts, err := opts.withDefaults()
	if err != nil {
		return changes, err
	}
	inv, err := p.tracker.load(ctx, work)
	if err != nil {
		if !dry {
			p.refused(work, err)
		}
		return changes, err
	}
	if len(desired) == 0 && !opts.AllowEmpty && inv.count() > 0 {
		err := fmt.Errorf("%w: %d objects of %s", ErrEmptyDesired, inv.count(), work.Name)
		if dry {
			return changes, err
		}
		return changes, p.tracker.refuse(ctx, work, v1alpha1.ConditionPruned, err)
	}
	run := &pruneRun{Pruner: p, work: work, opts: opts, inventory: inv}
	if dry {
		run.mode = modePlan
	}
	ids := run.desire(ctx, desired)
	plan := Diff(inv.entries(), ids)
	for _, kept := range plan.Keep {
		if kept.UID != "" {
			run.keptUIDs[kept.UID] = true
		}
	}
	if err := run.run(ctx, plan.Stale); err != nil {
		return changes, err
	}
	changes.Entries = run.changes(ctx)
	if dry {
		err := changes.Err()
		return changes, err
	}
	err = run.forget(ctx, v1alpha1.ConditionPruned, changes)
	p.announceChanges(work, changes)
	return changes, errors.Join(changes.Err(), err)
}

// desire returns the identities of the desired objects. A kind that is not served may be namespaced
// or not, so both identities are desired.
func (r *pruneRun) desire(ctx context.Context, desired []*unstructured.Unstructured) []v1alpha1.ResourceIdentifier {
	r.used, r.usedKinds, r.keptUIDs = map[string]Key{}, map[schema.GroupKind]Key{}, map[types.UID]bool{}
	policies := map[Key]Policy{}
	maps.Copy(policies, r.opts.Policies.ByKey)
	var ids []v1alpha1.ResourceIdentifier
	add := func(key Key, m discovery.Mapping) {
		if options, _ := byKey(r.opts.ByKey, key); options.Strategy == StrategyReadOnly {
			policies[key] = PolicyOrphan
			return
		}
		r.usedKinds[key.GroupKind()] = key
		if key.Namespace != "" {
			r.used[key.Namespace] = key
		}
		ids = append(ids, v1alpha1.ResourceIdentifier{
			Group: key.Group, Kind: key.Kind, Resource: m.Resource.Resource, Namespace: key.Namespace, Name: key.Name,
		})
	}
	for _, obj := range desired {
		key, err := Identify(obj)
		if err != nil {
			r.unknown++
			continue
		}
		gvk := obj.GroupVersionKind()
		m, err := r.kinds.Resolve(ctx, gvk.GroupKind(), gvk.Version)
		if err == nil && m.Namespaced && key.Namespace == "" {
			r.usedKinds[gvk.GroupKind()] = key
			r.unknown++ // Apply refuses it, so it may be any object with its name
			continue
		}
		if err != nil || m.Namespaced {
			add(key, m)
		}
		if (err != nil && key.Namespace != "") || (err == nil && !m.Namespaced) {
			key.Namespace = ""
			add(key, m)
		}
	}
	r.opts.Policies.ByKey = policies
	return ids
}

func (r *pruneRun) changes(ctx context.Context) []Change {
	changes := make([]Change, len(r.items))
	for i, item := range r.items {
		if !item.isFinished() {
			item.finish(ActionPending, ctx.Err())
		}
		changes[i] = item.change
	}
	return changes
}

// forget removes finished entries from the inventory. An object that stays keeps its entry while
// its Namespace or its CRD is in the inventory, because only the entry records that it must stay.
func (r *pruneRun) forget(ctx context.Context, condition string, changes *ChangeSet) error {
	_, err := r.tracker.update(ctx, r.work, r.inventory, func(inv *inventory) error {
		containers := map[Key]bool{}
		for _, e := range inv.entries() {
			if key := KeyOf(e.ResourceIdentifier); isContainer(key) {
				containers[key] = true
			}
		}
		var entries, left []v1alpha1.AppliedResourceMeta
		for _, item := range r.items {
			switch {
			case item.left && item.isSettled():
				left = append(left, item.entry)
			case item.isSettled():
				entries = append(entries, item.entry)
				delete(containers, KeyOf(item.entry.ResourceIdentifier))
			}
		}
		for _, e := range left {
			delete(containers, KeyOf(e.ResourceIdentifier)) // the container is not ours any more
		}
		for _, e := range left {
			namespace := Key{Kind: namespaceKind.Kind, Name: e.Namespace}
			if !containers[namespace] && !containers[crdOf(e.ResourceIdentifier)] {
				entries = append(entries, e)
			}
		}
		inv.remove(entries)
		done, reason, message := outcome(changes)
		r.tracker.setCondition(inv, condition, done, reason, message)
		return nil
	})
	return err
}

func crdOf(id v1alpha1.ResourceIdentifier) Key {
	return Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: id.Resource + "." + id.Group}
}
