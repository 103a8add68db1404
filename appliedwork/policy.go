// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Policy says what becomes of an object when it is not desired any more. The values are those of ManifestWork's delete
// option; empty is PolicyDelete.
type Policy string

const (
	// PolicyDelete deletes it.
	PolicyDelete Policy = "Delete"
	// PolicyOrphan leaves it and takes our owner reference out.
	PolicyOrphan Policy = "Orphan"
	// PolicySelectivelyOrphan, as [Policies].Default, leaves those that [Policies].Orphans names and deletes the others.
	PolicySelectivelyOrphan Policy = "SelectivelyOrphan"
)

// OrphanRule names an object that is left, as an orphaning rule of ManifestWork does: by resource, not by kind.
type OrphanRule struct {
	Group, Resource, Namespace, Name string
}

// Policies says what becomes of which object. The zero value deletes. A Namespace or a CRD goes with all that is in it or of
// it: one that has an object that is to be left is not deleted, with a [*PruneBlockedError], unless it is to be left too.
type Policies struct {
	// Default holds for all objects. Defaults to PolicyDelete.
	Default Policy
	// Orphans are the objects that PolicySelectivelyOrphan leaves.
	Orphans []OrphanRule
	// ByKey, where it has an object, decides over the others: PolicyDelete or PolicyOrphan.
	ByKey map[Key]Policy
}

// For returns PolicyDelete or PolicyOrphan for an object.
func (p Policies) For(id v1alpha1.ResourceIdentifier) Policy {
	if policy, ok := p.ByKey[KeyOf(id)]; ok {
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

// orphansIn returns the objects of a namespace that are named one by one to be left.
func (p Policies) orphansIn(namespace string) (ids []v1alpha1.ResourceIdentifier) {
	for _, rule := range p.Orphans {
		if rule.Namespace == namespace {
			ids = append(ids, v1alpha1.ResourceIdentifier{Group: rule.Group, Resource: rule.Resource, Namespace: namespace, Name: rule.Name})
		}
	}
	for key, policy := range p.ByKey {
		if key.Namespace == namespace && policy == PolicyOrphan {
			ids = append(ids, v1alpha1.ResourceIdentifier{Group: key.Group, Kind: key.Kind, Namespace: namespace, Name: key.Name})
		}
	}
	return ids
}

func (p Policies) validate() error {
	switch p.Default {
	case "", PolicyDelete, PolicyOrphan, PolicySelectivelyOrphan:
	default:
		return fmt.Errorf("%w: Policies.Default %q is none of Delete, Orphan, SelectivelyOrphan", ErrInvalidInput, p.Default)
	}
	if len(p.Orphans) > 0 && p.Default != PolicySelectivelyOrphan {
		return fmt.Errorf("%w: Policies.Orphans needs Policies.Default SelectivelyOrphan, which is %q", ErrInvalidInput, p.Default)
	}
	for key, policy := range p.ByKey {
		if policy != PolicyDelete && policy != PolicyOrphan {
			return fmt.Errorf("%w: Policies.ByKey has %q for %s, which is none of Delete, Orphan", ErrInvalidInput, policy, key)
		}
	}
	return nil
}
