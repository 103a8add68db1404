// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

type applyRun struct {
	*cluster
	tracker   *Tracker
	work      *v1alpha1.AppliedWork
	opts      ApplyOptions
	dry       bool
	items     []*applyItem
	announced map[schema.GroupVersionKind]announced
	inventory *inventory
	keepers   map[Key]bool       // Namespaces and CRDs with an object that stays: by a policy, or not part of the call
	gone      map[types.UID]bool // deleted AppliedWorks with traces on objects to adopt
}

// announced is a kind that is served after a CRD of the work is applied.
type announced struct {
	mapping discovery.Mapping
	crd     int // index of the CRD among the objects
}

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

func (i *applyItem) target() target { return target{i.mapping, i.id.Namespace, i.id.Name} }

// clientOf returns the client for the object of an item.
func (r *applyRun) clientOf(item *applyItem) dynamic.ResourceInterface {
	return r.resource(item.mapping, item.id.Namespace)
}

func (i *applyItem) isFinished() bool { return i.change.Action != "" }

// fail finishes an item with the error of its last request, or without a request.
func (i *applyItem) fail(err error) {
	if isRefusal(err) {
		i.written = writeRefused
	}
	i.finish(ActionFailed, err)
}

func (i *applyItem) refuse(err error) {
	i.written = writeRefused
	i.finish(ActionFailed, err)
}

// contains reports whether Kubernetes deletes an object with the object of the item, its Namespace
// or its CRD. The identifier may lack the kind or the resource.
func (i *applyItem) contains(id v1alpha1.ResourceIdentifier) bool {
	switch i.change.Key.GroupKind() {
	case namespaceKind:
		return id.Namespace == i.id.Name
	case crdKind:
		kind, plural := kindOf(i.source)
		same := kind.Kind != "" && id.Kind == kind.Kind || plural != "" && id.Resource == plural
		return same && id.Group == kind.Group
	}
	return false
}

// stays reports whether an object stays when the AppliedWork is deleted.
func (r *applyRun) stays(item *applyItem) bool {
	kept := isKept(item.source) || item.live != nil && isKeptFrom(item.live, r.work.UID)
	return kept || r.isProtected(item.change.Key) || r.opts.Policies.of(item.id, item.adopted) == PolicyOrphan
}

// isLeft reports whether the policy keeps an object, regardless of its adoption.
func (r *applyRun) isLeft(item *applyItem) bool { return r.opts.Policies.For(item.id) == PolicyOrphan }

// isUnowned reports whether an object gets no owner reference: it stays, or contains one that
// stays.
func (r *applyRun) isUnowned(item *applyItem) bool {
	if stays := r.stays(item); stays || !isContainer(item.change.Key) {
		return stays
	}
	return r.keepers[item.change.Key] ||
		slices.ContainsFunc(r.items, func(other *applyItem) bool { return item.contains(other.id) && r.stays(other) })
}

// isOurs returns a function that reports whether the fields of a manager are those of an item: all
// managers of the AppliedWork, or only the item's if it is Partial, and MigrateManagers.
func (r *applyRun) isOurs(item *applyItem) func(manager string) bool {
	return func(manager string) bool {
		return manager == item.manager || !item.options.Partial && isManagerOf(manager, r.work.UID) ||
			slices.Contains(r.opts.MigrateManagers, manager)
	}
}
