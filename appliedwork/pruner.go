// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Pruner deletes what was applied for a work and is not desired any more. It may be used concurrently, for one AppliedWork
// by one caller at a time. It remembers since when it has seen a type not served and an unconfirmed object absent, so
// one Pruner should last as long as the process.
type Pruner struct {
	*cluster
	tracker *Tracker

	mu       sync.Mutex
	unserved map[schema.GroupKind]*absence
}

// NewPruner returns a Pruner for the inventories of tracker.
func NewPruner(tracker *Tracker) *Pruner {
	return &Pruner{cluster: tracker.cluster, tracker: tracker, unserved: map[schema.GroupKind]*absence{}}
}

// PruneOptions are the options of [Pruner.Prune]. The zero value is useful.
type PruneOptions struct {
	// Propagation is what becomes of what the objects own. Defaults to background.
	Propagation metav1.DeletionPropagation
	// Policies say which objects are deleted and which are left. Defaults to delete all.
	Policies Policies
	// ByKey are the options of [ApplyOptions].ByKey. A desired object with [StrategyReadOnly] is
	// released if the work applied it before. The other strategies change nothing in Prune.
	ByKey map[Key]ObjectOptions
	// AllowEmpty is whether nothing may be desired. Without it that is an [ErrEmptyDesired]: it is more often a mistake.
	AllowEmpty bool
	// Concurrency is how many objects are deleted at a time, from 1 to 256. Defaults to 16.
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

// Plan returns what Prune would do, and changes nothing. The AppliedWork must exist: use the result of [Tracker.Ensure], which has
// its UID.
func (p *Pruner) Plan(ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions) (*ChangeSet, error) {
	return p.prune(ctx, work, desired, opts, true)
}

// Prune deletes what is recorded and not in desired, in the reverse order of apply, as [DecideDeletion] decides: only
// objects that have our owner reference, and only as they were when that was decided. An object that another AppliedWork
// has, or that has another owner, loses our reference and stays. What could not be deleted keeps its entry and holds up
// nothing but what contains it. A nil object stands for a manifest that could not be decoded. As it may be any of those
// recorded, nothing is deleted while there is one, nor while there is one that [Identify] refuses, or that lacks the namespace
// that its kind has. One of a kind that is not served is desired as any other.
//
// What was deleted is pending until it is gone. A type that is not served is no proof of that: its objects are pending
// until fresh discovery has said so over Options.UnservedGrace, and its CRD does not exist.
//
// The error is [ErrEmptyDesired], [ErrTerminating] or [ErrInvalidInput], and nothing is deleted; or it joins what the
// change set has: a [*PruneBlockedError] where a guard refused, and those of the API server. Prune does not look at conflicts of
// Apply. Prune a work only after an Apply that is Done, as package reconciler does: an [*OwnershipConflictError] blocks the prune
// there until Force or the other field manager resolves it. The change set is never nil;
// it has no entries for what is desired. A Namespace or a CRD stays while it contains unmanaged objects; see [Policies].Unmanaged. To
// find them, Prune lists the metadata of each namespaced kind in the Namespace, until a list has an unmanaged object.
func (p *Pruner) Prune(ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions) (*ChangeSet, error) {
	return p.prune(ctx, work, desired, opts, false)
}

func (p *Pruner) prune(ctx context.Context, work *v1alpha1.AppliedWork, desired []*unstructured.Unstructured, opts PruneOptions, dry bool) (*ChangeSet, error) {
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
	run := &pruneRun{Pruner: p, work: work, opts: opts, dry: dry, inventory: inv}
	ids := run.desire(ctx, desired)
	plan := Diff(inv.entries(), ids)
	for _, kept := range plan.Keep {
		run.keep(kept)
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

// pruneRun is one call of Prune, or one pass of Teardown.
type pruneRun struct {
	*Pruner
	work      *v1alpha1.AppliedWork
	opts      PruneOptions
	dry       bool
	ending    bool // the AppliedWork goes too: what comes late goes with it
	inventory *inventory
	claims    *claims
	unknown   int            // manifests of which is not known what they are
	used      map[string]Key // namespaces of desired objects, with one of them
	usedKinds map[schema.GroupKind]Key
	keptUIDs  map[types.UID]bool // of desired objects, which may be known by another kind too
	items     []*pruneItem

	contentMu sync.Mutex // held during discovery: all Namespaces of a wave need the same answer
	content   *contentKinds
}

// pruneItem is one entry that is not desired.
type pruneItem struct {
	entry   v1alpha1.AppliedResourceMeta
	mapping mapping
	live    *unstructured.Unstructured
	change  Change
	done    bool
	forget  bool
	pinned  bool // the policy has kept it, and another AppliedWork has it
	left    bool // released for good: the policy, or who removed our reference, wants it to stay
}

func (i *pruneItem) finish(action Action, err error) {
	i.change.Action, i.change.Err, i.done = action, err, true
	i.forget = action == ActionDeleted || action == ActionReleased || action == ActionRetained
}

// desire returns the identities of the desired. A kind that is not served may or may not have namespaces: both are
// desired.
func (r *pruneRun) desire(ctx context.Context, desired []*unstructured.Unstructured) []v1alpha1.ResourceIdentifier {
	r.used, r.usedKinds, r.keptUIDs = map[string]Key{}, map[schema.GroupKind]Key{}, map[types.UID]bool{}
	policies := maps.Clone(r.opts.Policies.ByKey)
	var ids []v1alpha1.ResourceIdentifier
	add := func(key Key, m mapping) {
		if options, _ := byKey(r.opts.ByKey, key); options.Strategy == StrategyReadOnly {
			if policies == nil {
				policies = map[Key]Policy{}
			}
			policies[key] = PolicyOrphan
			return
		}
		r.usedKinds[key.GroupKind()] = key
		r.use(key)
		ids = append(ids, v1alpha1.ResourceIdentifier{
			Group: key.Group, Kind: key.Kind, Resource: m.resource.Resource, Namespace: key.Namespace, Name: key.Name,
		})
	}
	for _, obj := range desired {
		key, err := Identify(obj)
		if err != nil {
			r.unknown++
			continue
		}
		gvk := obj.GroupVersionKind()
		m, err := r.kinds.resolve(ctx, gvk.GroupKind(), gvk.Version)
		if err == nil && m.namespaced && key.Namespace == "" {
			r.usedKinds[gvk.GroupKind()] = key
			r.unknown++ // Apply refuses it, so it may be any object of its name
			continue
		}
		if err != nil || m.namespaced {
			add(key, m)
		}
		if (err != nil && key.Namespace != "") || (err == nil && !m.namespaced) {
			key.Namespace = ""
			add(key, m)
		}
	}
	r.opts.Policies.ByKey = policies
	return ids
}

func (r *pruneRun) use(key Key) {
	if key.Namespace != "" {
		r.used[key.Namespace] = key
	}
}

func (r *pruneRun) keep(e v1alpha1.AppliedResourceMeta) {
	if e.UID != "" {
		r.keptUIDs[e.UID] = true
	}
}

func (r *pruneRun) changes(ctx context.Context) []Change {
	changes := make([]Change, len(r.items))
	for i, item := range r.items {
		if !item.done {
			item.finish(ActionPending, ctx.Err())
		}
		changes[i] = item.change
	}
	return changes
}

// forget takes out of the inventory what is done with. An object that is left keeps its entry while its Namespace or its
// CRD is in the inventory: nothing else knows later that an object has to stay.
func (r *pruneRun) forget(ctx context.Context, condition string, changes *ChangeSet) error {
	_, err := r.tracker.update(ctx, r.work, r.inventory, func(inv *inventory) error {
		containers := map[Key]bool{}
		for _, e := range inv.entries() {
			if key := KeyOf(e.ResourceIdentifier); key.GroupKind() == namespaceKind || key.GroupKind() == crdKind {
				containers[key] = true
			}
		}
		var entries, left []v1alpha1.AppliedResourceMeta
		for _, item := range r.items {
			switch {
			case item.left && item.forget:
				left = append(left, item.entry)
			case item.forget:
				entries = append(entries, item.entry)
				delete(containers, KeyOf(item.entry.ResourceIdentifier))
			}
		}
		for _, e := range left {
			delete(containers, KeyOf(e.ResourceIdentifier)) // it is not ours any more
		}
		for _, e := range left {
			namespace := Key{Kind: namespaceKind.Kind, Name: e.Namespace}
			if !containers[namespace] && !containers[crdOf(e.ResourceIdentifier)] {
				entries = append(entries, e)
			}
		}
		inv.remove(entries)
		r.tracker.setCondition(inv, outcome(condition, inv.main().Generation, changes))
		return nil
	})
	return err
}

// crdOf returns the CRD of an object, if its kind has one.
func crdOf(id v1alpha1.ResourceIdentifier) Key {
	return Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: id.Resource + "." + id.Group}
}
