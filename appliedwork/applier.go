// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
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

// ApplyOptions are the options of [Applier.Apply]. The zero value is useful.
type ApplyOptions struct {
	// Adoption decides whether an existing object that the AppliedWork does not own is adopted. An
	// adoption removes the annotations and the field managers of AppliedWorks that were deleted.
	// Defaults to AdoptionNever.
	Adoption Adoption
	// FieldManager is the prefix of the field manager's name. The UID of the AppliedWork follows,
	// because two works with the same field manager remove each other's owner references. The
	// prefix may change: the next apply moves the fields of the earlier field manager to the new
	// one. At most 90 characters. Defaults to "appliedwork".
	FieldManager string
	// Policies decide which objects stay when the work drops them. Use the same in Prune and
	// Teardown. An object that stays gets no owner reference.
	Policies Policies
	// Force overwrites conflicting fields of other field managers, and becomes their manager.
	// Without Force, such fields are an [*OwnershipConflictError]. The other fields of the object
	// are then applied, unless the conflict is about a field of another version of the kind. An
	// object that is not adopted yet is not written at all. Fields without a manager, for example
	// after a release, need no Force.
	Force bool
	// MigrateManagers are field managers of earlier tools, such as "kubectl-client-side-apply".
	// Their fields move to FieldManager, as with csaupgrade of client-go. Fields of theirs that
	// are not in the manifest are removed.
	MigrateManagers []string
	// Recreate deletes an object and creates it again if the API server refuses a change only
	// because of immutable fields. A dry run of the create must succeed first. The work must have
	// created the object and own it alone, and Policies must not keep it. Namespaces and CRDs are
	// never recreated.
	Recreate bool
	// ByKey replaces FieldManager, Force and Recreate for single objects, and sets the options that
	// exist only for single objects. A namespace in the key of a cluster-scoped object is ignored,
	// as is a key without an object.
	ByKey map[Key]ObjectOptions
	// Executor is a user that limits the writes of Apply. The error of an object that the user may
	// not write is Forbidden, and the other objects are applied. Requires [Options].Reviews. Nil
	// means no check.
	Executor *Executor
	// Concurrency is the number of objects that are applied at a time, from 1 to 256. Defaults to
	// 16.
	Concurrency int
}

// ObjectOptions are the options of [Applier.Apply] for one object.
type ObjectOptions struct {
	// FieldManager is the same as in [ApplyOptions]. Defaults to [ApplyOptions].FieldManager.
	FieldManager string
	// Force and Recreate are the same as in [ApplyOptions]. Both default to false, also if they are
	// set in [ApplyOptions].
	Force, Recreate bool
	// Strategy decides how the object is written. Defaults to StrategyServerSideApply.
	Strategy Strategy
	// Partial marks a manifest with only some of the work's fields of the object. Fields that the
	// AppliedWork has applied with another FieldManager stay.
	Partial bool
	// ResourceVersion is the version of the live object on which the manifest is based. If the
	// object has changed since, it is not written, and the error is [ErrChanged].
	ResourceVersion string
	// IgnoreFields are JSON pointers (RFC 6901) into the manifest, such as /spec/replicas. Apply
	// sends these fields when it creates the object, and keeps their live values later. It does not
	// send a field of another field manager. It sends a field of ours with the live value, also
	// after the manifest dropped the field. List items are matched by their keys. A change of an
	// ignored field alone causes no write. StrategyUpdate and Force respect IgnoreFields;
	// StrategyCreateOnly and StrategyReadOnly ignore all fields. An invalid pointer is an
	// [ErrInvalidInput]; see [CheckIgnoreFields].
	IgnoreFields []string
	// IgnoreChangedFields are like IgnoreFields, but only for fields that others have changed.
	// Other fields are applied as usual.
	IgnoreChangedFields []string
}

// Adoption decides whether Apply adopts an existing object that the AppliedWork does not own.
type Adoption string

const (
	// AdoptionNever refuses the object with an [*AdoptionError]. It is the default.
	AdoptionNever Adoption = "Never"
	// AdoptionIfUnowned adopts an object without owner references, and refuses all others.
	AdoptionIfUnowned Adoption = "IfUnowned"
	// AdoptionAlways adopts the object. Other owners keep their owner references.
	AdoptionAlways Adoption = "Always"
)

// Strategy decides how Apply writes an object. The values are those of ManifestWork's update
// strategy.
type Strategy string

const (
	// StrategyServerSideApply writes the object with server-side apply.
	StrategyServerSideApply Strategy = "ServerSideApply"
	// StrategyUpdate is StrategyServerSideApply with Force.
	StrategyUpdate Strategy = "Update"
	// StrategyCreateOnly creates the object. An existing object that is ours or may be adopted gets
	// the owner reference, and is not changed otherwise.
	StrategyCreateOnly Strategy = "CreateOnly"
	// StrategyReadOnly reads the object, and writes and records nothing. The action is
	// ActionRetained, and Live is nil if the object does not exist. Prune needs the option too, in
	// [PruneOptions].ByKey: it then releases an object that the work applied before.
	StrategyReadOnly Strategy = "ReadOnly"
)

const (
	defaultFieldManager = "appliedwork"
	// maxFieldManager leaves room for the UID within the 128 characters that the API server
	// accepts.
	maxFieldManager = 90
)

func (o ApplyOptions) withDefaults() (ApplyOptions, error) {
	var err error
	if o.Concurrency, err = concurrencyOf(o.Concurrency); err != nil {
		return o, err
	}
	switch o.Adoption {
	case "":
		o.Adoption = AdoptionNever
	case AdoptionNever, AdoptionIfUnowned, AdoptionAlways:
	default:
		return o, fmt.Errorf("%w: ApplyOptions.Adoption: %q: must be Never, IfUnowned or Always", ErrInvalidInput, o.Adoption)
	}
	if len(o.FieldManager) > maxFieldManager {
		return o, fmt.Errorf("%w: ApplyOptions.FieldManager has %d characters, and may have %d", ErrInvalidInput, len(o.FieldManager), maxFieldManager)
	}
	for key, object := range o.ByKey {
		if len(object.FieldManager) > maxFieldManager {
			return o, fmt.Errorf("%w: ApplyOptions.ByKey has a FieldManager of %d characters for %s, which may have %d",
				ErrInvalidInput, len(object.FieldManager), key, maxFieldManager)
		}
		switch object.Strategy {
		case "", StrategyServerSideApply, StrategyUpdate, StrategyCreateOnly, StrategyReadOnly:
		default:
			return o, fmt.Errorf("%w: ApplyOptions.ByKey: Strategy %q of %s: must be ServerSideApply, Update, CreateOnly or ReadOnly",
				ErrInvalidInput, object.Strategy, key)
		}
		if err := CheckIgnoreFields(nil, slices.Concat(object.IgnoreFields, object.IgnoreChangedFields)...); err != nil {
			return o, fmt.Errorf("invalid IgnoreFields in ApplyOptions.ByKey for %s: %w", key, err)
		}
	}
	return o, o.Policies.validate()
}

// of returns the options for an object.
func (o ApplyOptions) of(key Key) ObjectOptions {
	object, ok := byKey(o.ByKey, key)
	if !ok {
		object.Force, object.Recreate = o.Force, o.Recreate
	}
	object.Force = object.Force || object.Strategy == StrategyUpdate
	object.FieldManager = cmp.Or(object.FieldManager, o.FieldManager, defaultFieldManager)
	return object
}

// Apply applies the objects of a work. The request that creates an object also sets the owner
// reference to the AppliedWork. Before the first write, Apply records in the inventory which
// objects it is about to write. At the end it records their UIDs. It removes the entry of an object
// that was certainly not written. An object with an unknown outcome keeps its entry, so that it is
// found again.
//
// An object that matches its manifest causes no write. Namespaces and CRDs are applied first,
// webhooks and API services last. An object that fails does not stop the others. An object is
// pending while it, or its namespace, is being deleted. A nil element stands for a manifest that
// could not be decoded.
//
// Apply does not change the given objects. It does not send their owner references to AppliedWorks,
// their status, or metadata that only the API server sets. This includes the status of kinds
// without a status subresource.
//
// After [ErrTerminating], [ErrDuplicate], [ErrInvalidInput] or an [*InventoryTooLargeError],
// nothing is applied. Otherwise the error joins those of the change set: [ErrGenerateName],
// [ErrInvalidObject], [ErrChanged], [*AdoptionError], [*OwnershipConflictError],
// [*TypeNotServedError] and those of the API server. The change set is never nil.
func (a *Applier) Apply(ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions) (*ChangeSet, error) {
	return a.apply(ctx, work, objects, opts, false)
}

// Plan returns the changes that Apply would make, and changes nothing. It makes the requests of
// Apply as dry runs, which need the same rights. Each change has the action that Apply would take
// and the resulting object. For an existing object it also has Fields; without any, the object is
// unchanged.
//
// An object is pending if the same call would create its kind or its namespace, because the API
// server cannot check the object before. An object that Recreate would delete and create again is
// reported as created, with the UID of the existing object. The errors are those of Apply. The
// AppliedWork must exist: use the result of [Tracker.Ensure], which has its UID.
func (a *Applier) Plan(ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions) (*ChangeSet, error) {
	return a.apply(ctx, work, objects, opts, true)
}

func (a *Applier) apply(ctx context.Context, work *v1alpha1.AppliedWork, objects []*unstructured.Unstructured, opts ApplyOptions, dry bool) (*ChangeSet, error) {
	changes := &ChangeSet{}
	opts, err := opts.withDefaults()
	if err := errors.Join(err, opts.Executor.validate(a.opts.Reviews), checkWork(work)); err != nil {
		return changes, err
	}
	run := &applyRun{Applier: a, work: work, opts: opts, dry: dry}
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
	err = errors.Join(changes.Err(), err)
	return changes, err
}

// applyRun is one call of Apply.
type applyRun struct {
	*Applier
	work      *v1alpha1.AppliedWork
	opts      ApplyOptions
	dry       bool
	items     []*applyItem
	announced map[schema.GroupVersionKind]announced
	inventory *inventory
	keepers   map[Key]bool       // Namespaces and CRDs with an object that stays: by a policy, or not part of the call
	gone      map[types.UID]bool // deleted AppliedWorks with traces on objects to adopt
}

// applyItem is one object of a call.
type applyItem struct {
	source  *unstructured.Unstructured
	id      v1alpha1.ResourceIdentifier
	mapping discovery.Mapping
	mapped  bool // whether mapping can be used
	live    *unstructured.Unstructured
	gone    []types.UID // deleted AppliedWorks; their traces were removed from live
	manager string
	options ObjectOptions
	ignored *fieldset.Ignored // nil if no field is ignored
	change  Change
	written writeResult

	isNew   bool // its entry is from this call
	ours    bool // the object as it was read is ours
	adopted bool // it is, or would be, adopted
	moved   bool // it moves from another AppliedWork
}

// writeResult is the effect of a call on an object.
type writeResult int

const (
	writeUnknown writeResult = iota // the object may have been written
	writeDone                       // the object was written, or was up to date
	writeRefused                    // certainly nothing was written
)

func (i *applyItem) finish(action Action, err error) {
	i.change.Action, i.change.Err = action, err
	switch action {
	case ActionCreated, ActionConfigured, ActionUnchanged, ActionAdopted:
		i.written = writeDone
	}
}

func (i *applyItem) isFinished() bool { return i.change.Action != "" }

// fail finishes an item with the error of its last request, or without a request.
func (i *applyItem) fail(err error) {
	if isRefusal(err) {
		i.written = writeRefused
	}
	i.finish(ActionFailed, err)
}

// refuse finishes an item for which nothing was written.
func (i *applyItem) refuse(err error) {
	i.written = writeRefused
	i.finish(ActionFailed, err)
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
		return fmt.Errorf("%w: manifest %d, %s, is of a namespaced kind: set metadata.namespace", ErrInvalidObject, ordinal, key)
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

// announced is a kind that is served after a CRD of the work is applied.
type announced struct {
	mapping discovery.Mapping
	crd     int // index of the CRD among the objects
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
			kinds[schema.GroupVersionKind{Group: group, Version: version, Kind: kind}] = announced{crd: i, mapping: discovery.Mapping{
				Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: text("spec", "names", "plural")},
				Kind:     kind, Namespaced: strings.EqualFold(text("spec", "scope"), "Namespaced"),
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
