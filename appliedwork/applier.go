// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Applier applies the objects of a work. It may be used concurrently, for one AppliedWork by one caller at a time.
type Applier struct {
	*cluster
	tracker *Tracker
}

// NewApplier returns an Applier that records in tracker what it does.
func NewApplier(tracker *Tracker) *Applier {
	return &Applier{cluster: tracker.cluster, tracker: tracker}
}

// ApplyOptions are the options of [Applier.Apply]. The zero value is useful.
type ApplyOptions struct {
	// Adoption says what to do with an object that exists and is not ours. Defaults to AdoptNever.
	Adoption Adoption
	// FieldManager is the first part of the name of the field manager; the UID of the AppliedWork is the second, because
	// two works that share a manager drop each other's references. It may be another each time: what an object has of an
	// earlier one becomes this one's. At most 90 characters. Defaults to "appliedwork".
	FieldManager string
	// Force takes over fields that others manage. Without it they are an [*OwnershipConflictError].
	Force bool
	// ByKey, where it has an object, decides over FieldManager and Force for that object, and has what is for it alone. Keys of kinds that are not in
	// namespaces have none.
	ByKey map[Key]ObjectOptions
	// Concurrency is how many objects are applied at a time, from 1 to 256. Defaults to 16.
	Concurrency int
}

// ObjectOptions are the options of [Applier.Apply] for one object.
type ObjectOptions struct {
	// FieldManager is as in [ApplyOptions], whose it is by default.
	FieldManager string
	// Force is as in [ApplyOptions], and false by default.
	Force bool
	// Partial says that the object is a part of what the work has of it: what was applied for the AppliedWork under another
	// FieldManager stays as it is.
	Partial bool
	// ResourceVersion is that of the object from which the manifest has values. One that is another by now is left as it is,
	// with [ErrChanged]: read it again.
	ResourceVersion string
}

const (
	defaultFieldManager = "appliedwork"
	// maxFieldManager leaves room for the UID in the 128 characters that the API server takes.
	maxFieldManager = 90
)

func (o ApplyOptions) withDefaults() (ApplyOptions, error) {
	var err error
	if o.Concurrency, err = concurrencyOf(o.Concurrency); err != nil {
		return o, err
	}
	switch o.Adoption {
	case "":
		o.Adoption = AdoptNever
	case AdoptNever, AdoptIfUnowned, AdoptAlways:
	default:
		return o, fmt.Errorf("%w: ApplyOptions.Adoption %q is none of Never, IfUnowned, Always", ErrInvalidInput, o.Adoption)
	}
	if len(o.FieldManager) > maxFieldManager {
		return o, fmt.Errorf("%w: ApplyOptions.FieldManager has %d characters, and may have %d", ErrInvalidInput, len(o.FieldManager), maxFieldManager)
	}
	for key, object := range o.ByKey {
		if len(object.FieldManager) > maxFieldManager {
			return o, fmt.Errorf("%w: ApplyOptions.ByKey has a FieldManager of %d characters for %s, which may have %d",
				ErrInvalidInput, len(object.FieldManager), key, maxFieldManager)
		}
	}
	return o, nil
}

// of returns the options for an object.
func (o ApplyOptions) of(key Key) ObjectOptions {
	object, ok := o.ByKey[key]
	if !ok {
		object.Force = o.Force
	}
	object.FieldManager = cmp.Or(object.FieldManager, o.FieldManager, defaultFieldManager)
	return object
}

// Apply brings the objects to the cluster, with an owner reference to the AppliedWork in the same request, and records them:
// before the first of them is written, that they are about to be, and in the end their UIDs. An object whose outcome is
// not known keeps its entry, as does one that failed, so that whatever was made is found again. Objects that are as their
// manifests have them cost no write. Namespaces and CRDs come first, webhooks and API services last; one that fails does not
// stop the others. Objects are not changed, and a nil one stands for a manifest that could not be decoded.
//
// The error is [ErrTerminating], [ErrDuplicate], [ErrInvalidInput] or an [*InventoryTooLargeError], and nothing is
// applied; or it joins what the change set has: [ErrGenerateName], [ErrInvalidObject], [ErrChanged], [*AdoptionError],
// [*OwnershipConflictError], [*TypeNotServedError] and those of the API server. The change set is never nil. An object is
// pending while it, or its namespace, is being deleted.
func (a *Applier) Apply(ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions) (*ChangeSet, error) {
	changes := &ChangeSet{}
	opts, err := opts.withDefaults()
	if err := errors.Join(err, checkWork(work)); err != nil {
		return changes, err
	}
	run := &applyRun{Applier: a, work: work, opts: opts}
	if err := run.identify(ctx, objects); err != nil {
		return changes, a.tracker.refuse(ctx, work, v1alpha1.ConditionApplied, err)
	}
	if err := run.record(ctx); err != nil {
		return changes, a.tracker.refuse(ctx, work, v1alpha1.ConditionApplied, err)
	}
	run.apply(ctx)
	changes.Entries = run.changes(ctx)
	err = run.confirm(ctx, changes)
	a.announceChanges(work, changes)
	return changes, errors.Join(changes.Err(), err)
}

// applyRun is one call of Apply.
type applyRun struct {
	*Applier
	work      *v1alpha1.AppliedWork
	opts      ApplyOptions
	items     []*applyItem
	announced map[schema.GroupVersionKind]announced
	inventory *inventory
}

// applyItem is one object of a call.
type applyItem struct {
	source   *unstructured.Unstructured
	id       v1alpha1.ResourceIdentifier
	mapping  mapping
	mapped   bool // whether mapping can be used
	unmapped error
	live     *unstructured.Unstructured
	manager  string
	force    bool
	partial  bool
	version  string
	change   Change
	done     bool
}

func (i *applyItem) finish(action Action, err error) {
	i.change.Action, i.change.Err, i.done = action, err, true
}

// identify says what the objects are and how to reach them.
func (r *applyRun) identify(ctx context.Context, objects []*unstructured.Unstructured) error {
	seen := make(map[Key]int, len(objects))
	r.announced = announcedKinds(objects)
	for ordinal, obj := range objects {
		item := &applyItem{source: obj}
		r.items = append(r.items, item)
		key, err := Identify(obj)
		item.change.Key = key
		if err != nil {
			item.finish(ActionFailed, fmt.Errorf("manifest %d: %w", ordinal, err))
			continue
		}
		gvk := obj.GroupVersionKind()
		item.mapping, item.unmapped = r.kinds.resolveExactly(ctx, gvk)
		item.mapped = item.unmapped == nil
		if a, ok := r.announced[gvk]; ok && !item.mapped {
			item.mapping = a.mapping // it will be served when its CRD is applied
		} else if !item.mapped {
			item.finish(ActionFailed, fmt.Errorf("manifest %d, %s: %w", ordinal, key, item.unmapped))
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
		item.manager, item.force = managerFor(object.FieldManager, r.work.UID), object.Force
		item.partial, item.version = object.Partial, object.ResourceVersion
	}
	return nil
}

// place sets the entry of an item: with a namespace when its kind has one, and else without.
func (i *applyItem) place(ordinal int, gvk schema.GroupVersionKind) error {
	key := &i.change.Key
	if i.mapping.namespaced && key.Namespace == "" {
		return fmt.Errorf("%w: manifest %d, %s, is of a namespaced kind: set metadata.namespace", ErrInvalidObject, ordinal, key)
	}
	if !i.mapping.namespaced {
		key.Namespace = ""
	}
	i.id = v1alpha1.ResourceIdentifier{
		Ordinal: ordinal, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Resource: i.mapping.resource.Resource, Namespace: key.Namespace, Name: key.Name,
	}
	return nil
}

// announced is a kind that is served when a CRD of the work is applied.
type announced struct {
	mapping mapping
	crd     int // the place of the CRD among the objects
}

// announcedKinds returns the kinds that CRDs among the objects define.
func announcedKinds(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]announced {
	kinds := map[schema.GroupVersionKind]announced{}
	for i, obj := range objects {
		if obj == nil || obj.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		text := func(path ...string) string { s, _, _ := unstructured.NestedString(obj.Object, path...); return s }
		group, kind := text("spec", "group"), text("spec", "names", "kind")
		for _, version := range servedVersions(obj) {
			kinds[schema.GroupVersionKind{Group: group, Version: version, Kind: kind}] = announced{crd: i, mapping: mapping{
				resource: schema.GroupVersionResource{Group: group, Version: version, Resource: text("spec", "names", "plural")},
				kind:     kind, namespaced: strings.EqualFold(text("spec", "scope"), "Namespaced"),
			}}
		}
	}
	return kinds
}

func (r *applyRun) changes(ctx context.Context) []Change {
	changes := make([]Change, len(r.items))
	for i, item := range r.items {
		if !item.done {
			item.finish(ActionPending, ctx.Err())
		}
		changes[i] = item.change
	}
	return changes
}
