// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// OwnerReference returns the owner reference of an object to its AppliedWork. It sets
// blockOwnerDeletion: a foreground deletion of the AppliedWork waits for the object. It does not
// set controller, because an object may have several AppliedWorks. With the admission plugin
// OwnerReferencesPermissionEnforcement, blockOwnerDeletion needs the right to update
// appliedworks/finalizers.
func OwnerReference(work *v1alpha1.AppliedWork) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: work.Name, UID: work.UID,
		BlockOwnerDeletion: new(true),
	}
}

// IsOwnedBy reports whether an object has an owner reference with the UID.
func IsOwnedBy(obj metav1.Object, uid types.UID) bool {
	return uid != "" && slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == uid
	})
}

// SetOwnerReference adds the reference to work to an object, or replaces the one with the same UID,
// and reports whether the object changed. Other references stay.
func SetOwnerReference(obj metav1.Object, work *v1alpha1.AppliedWork) bool {
	wanted := OwnerReference(work)
	references := obj.GetOwnerReferences()
	i := slices.IndexFunc(references, func(r metav1.OwnerReference) bool { return r.UID == work.UID })
	if i >= 0 && sameReference(references[i], wanted) {
		return false
	}
	references = slices.Clone(references)
	if i < 0 {
		references = append(references, wanted)
	} else {
		references[i] = wanted
	}
	obj.SetOwnerReferences(references)
	return true
}

// RemoveOwnerReference removes all references with the UID from an object, and reports whether
// there were any.
func RemoveOwnerReference(obj metav1.Object, uid types.UID) bool {
	references := obj.GetOwnerReferences()
	others := slices.DeleteFunc(slices.Clone(references), func(r metav1.OwnerReference) bool { return r.UID == uid })
	if len(others) == len(references) {
		return false
	}
	if len(others) == 0 {
		others = nil
	}
	obj.SetOwnerReferences(others)
	return true
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		isTrue(a.Controller) == isTrue(b.Controller) && isTrue(a.BlockOwnerDeletion) == isTrue(b.BlockOwnerDeletion)
}

func isTrue(p *bool) bool { return p != nil && *p }

// isAppliedWork reports whether a reference is to an AppliedWork, in any version.
func isAppliedWork(r metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	return err == nil && gv.Group == v1alpha1.GroupName && r.Kind == v1alpha1.Kind
}
