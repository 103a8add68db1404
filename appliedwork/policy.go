// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Policy decides whether an object is deleted or stays when it is not desired any more. The values
// are those of ManifestWork's delete option. Empty means the default of the field.
type Policy string

const (
	// PolicyDelete deletes the object.
	PolicyDelete Policy = "Delete"
	// PolicyOrphan keeps the object and removes our owner reference.
	PolicyOrphan Policy = "Orphan"
	// PolicySelectivelyOrphan, as [Policies].Default, keeps the objects of [Policies].Orphans and
	// deletes the others.
	PolicySelectivelyOrphan Policy = "SelectivelyOrphan"
)

// OrphanRule identifies an object that stays, like an orphaning rule of ManifestWork.
type OrphanRule struct {
	Group, Resource, Namespace, Name string
}

// Policies decide which objects stay when the work drops them. The zero value deletes the objects
// that the work created, and keeps adopted objects. Pass the same Policies to Apply, Prune and
// Teardown: Apply sets no owner reference on an object that stays, nor on its Namespace and its
// CRD. Prune keeps all three, and may report a [*PruneBlockedError] for the Namespace or the CRD.
type Policies struct {
	// Default applies to all objects. Defaults to PolicyDelete.
	Default Policy
	// Orphans are the objects that PolicySelectivelyOrphan keeps.
	Orphans []OrphanRule
	// Adopted applies to adopted objects: objects that existed before, and that no AppliedWork
	// owned. Defaults to PolicyOrphan. With PolicyDelete, they are deleted as if the work had
	// created them.
	Adopted Policy
	// Unmanaged applies to objects in a Namespace of the work that no AppliedWork has applied.
	// Defaults to PolicyOrphan, which keeps the Namespace while it contains such an object.
	// PolicyDelete deletes the Namespace with all its content. These do not count: objects that
	// Kubernetes creates in every Namespace, Events, Endpoints, Leases, token Secrets of
	// ServiceAccounts, and objects with PolicyDelete in ByKey. An object with an owner in the
	// Namespace does not count either, but the owner may.
	Unmanaged Policy
	// ByKey overrides all other fields for single objects, with PolicyDelete or PolicyOrphan. A
	// namespace in the key of a cluster-scoped object is ignored.
	ByKey map[Key]Policy
}

// of returns the policy of an object. An adopted object stays, unless ByKey has it or Adopted is
// PolicyDelete.
func (p Policies) of(id v1alpha1.ResourceIdentifier, adopted bool) Policy {
	if _, ok := byKey(p.ByKey, KeyOf(id)); adopted && !ok && p.Adopted != PolicyDelete {
		return PolicyOrphan
	}
	return p.For(id)
}

// For returns PolicyDelete or PolicyOrphan for an object that the work has created.
func (p Policies) For(id v1alpha1.ResourceIdentifier) Policy {
	if policy, ok := byKey(p.ByKey, KeyOf(id)); ok {
		return policy
	}
	switch p.Default {
	case PolicyOrphan:
		return PolicyOrphan
	case PolicySelectivelyOrphan:
		if slices.Contains(p.Orphans, OrphanRule{id.Group, id.Resource, id.Namespace, id.Name}) {
			return PolicyOrphan
		}
	}
	return PolicyDelete
}

// byKey returns the value of an object in a map. If key has no namespace, it ignores those of the
// map: [Identify] gives a cluster-scoped object the namespace of its manifest.
func byKey[V any](m map[Key]V, key Key) (value V, ok bool) {
	if value, ok = m[key]; ok || key.Namespace != "" {
		return value, ok
	}
	for other, value := range m {
		if other.Namespace = ""; other == key {
			return value, true
		}
	}
	return value, false
}

// orphans yields the objects that Orphans and ByKey keep, each with a resource or a kind.
func (p Policies) orphans(yield func(v1alpha1.ResourceIdentifier) bool) {
	for _, rule := range p.Orphans {
		if !yield(v1alpha1.ResourceIdentifier{
			Group: rule.Group, Resource: rule.Resource, Namespace: rule.Namespace, Name: rule.Name,
		}) {
			return
		}
	}
	for key, policy := range p.ByKey {
		if policy == PolicyOrphan && !yield(v1alpha1.ResourceIdentifier{
			Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
		}) {
			return
		}
	}
}

func (p Policies) validate() error {
	switch p.Default {
	case "", PolicyDelete, PolicyOrphan, PolicySelectivelyOrphan:
	default:
		return fmt.Errorf("%w: Policies.Default: %q: must be Delete, Orphan or SelectivelyOrphan", ErrInvalidInput, p.Default)
	}
	if p.Adopted != "" && p.Adopted != PolicyDelete && p.Adopted != PolicyOrphan {
		return fmt.Errorf("%w: Policies.Adopted: %q: must be Delete or Orphan", ErrInvalidInput, p.Adopted)
	}
	if p.Unmanaged != "" && p.Unmanaged != PolicyDelete && p.Unmanaged != PolicyOrphan {
		return fmt.Errorf("%w: Policies.Unmanaged: %q: must be Delete or Orphan", ErrInvalidInput, p.Unmanaged)
	}
	if len(p.Orphans) > 0 && p.Default != PolicySelectivelyOrphan {
		return fmt.Errorf("%w: Policies.Default: %q: must be SelectivelyOrphan with Policies.Orphans",
			ErrInvalidInput, p.Default)
	}
	for key, policy := range p.ByKey {
		if policy != PolicyDelete && policy != PolicyOrphan {
			return fmt.Errorf("%w: Policies.ByKey of %s: %q: must be Delete or Orphan", ErrInvalidInput, key, policy)
		}
	}
	return nil
}
