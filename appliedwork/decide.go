// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Decision is the action for an object that is not desired any more, and for its entry.
type Decision string

const (
	// Delete the object, with its UID and resourceVersion as preconditions. The entry stays until
	// the object is gone.
	Delete Decision = "Delete"
	// Release the object: remove our owner reference, keep the object and remove the entry. If
	// another AppliedWork is about to apply the object and the object has no other owner, the
	// reference of that AppliedWork replaces ours.
	Release Decision = "Release"
	// Retain the object: it is not ours. Do not change the object, and remove the entry.
	Retain Decision = "Retain"
	// Gone: the object does not exist. Remove the entry.
	Gone Decision = "Gone"
	// Wait: the object is being deleted and still exists. Keep the entry.
	Wait Decision = "Wait"
)

// Owner is an AppliedWork that has an object in its inventory.
type Owner struct {
	// Name and UID are those of the AppliedWork.
	Name string
	UID  types.UID
	// Applied reports whether the AppliedWork has applied the object, or is only about to.
	Applied bool
	// Object is the UID of the object that the AppliedWork has applied, which may be an earlier
	// object of the same name.
	Object types.UID
	// Terminating reports whether the AppliedWork or all its objects are being deleted, so it has
	// no claim. It is false if the policies of the Teardown keep objects.
	Terminating bool
}

// Owners are the AppliedWorks that may have a claim on an object.
type Owners struct {
	// Self is the UID of our AppliedWork.
	Self types.UID
	// Listed are the AppliedWorks that have the object in their inventories; ours may be among
	// them.
	Listed []Owner
	// Dead reports whether the AppliedWork with a UID is gone or terminating. A reference to it is
	// no claim then. Nil means that no AppliedWork is known to be gone or terminating.
	Dead func(types.UID) bool
}

// DecideDeletion decides about an object that is not desired any more. Live is the current object,
// or nil if it does not exist. An object of a type that is not served may exist: see
// [IsTypeNotServed]. The rules, in this order:
//
//	there is no object                                       Gone
//	it has no reference to us; its UID, a field manager or an
//	annotation shows that we applied it: a user or a policy
//	has removed the reference                                Release
//	it has no reference to us                                Retain   it was never ours, or was replaced
//	it has one, and the policy is to orphan                  Release
//	it has one, and another owner: a second owner reference,
//	or an entry of another AppliedWork, which is not
//	terminating and has not released the object              Release  only our reference goes
//	it has one, and is being deleted                         Wait
//	it has one                                               Delete   even if its UID has changed
//
// Only our owner reference permits a deletion. An owner of another kind counts as alive. If it is
// not, Kubernetes' garbage collector deletes the object after our reference is removed.
func DecideDeletion(
	live *unstructured.Unstructured, entry v1alpha1.AppliedResourceMeta, owners Owners, policy Policy,
) Decision {
	switch {
	case live == nil:
		return Gone
	case !IsOwnedBy(live, owners.Self) && (entry.UID != "" && entry.UID == live.GetUID() || hasTraces(live, owners.Self)):
		return Release
	case !IsOwnedBy(live, owners.Self):
		return Retain
	case policy == PolicyOrphan || owners.claimed(live):
		return Release
	case live.GetDeletionTimestamp() != nil:
		return Wait
	default:
		return Delete
	}
}

// claimed reports whether another owner has a claim on the object.
func (o Owners) claimed(live *unstructured.Unstructured) bool {
	return o.owned(live) || slices.ContainsFunc(o.Listed, func(listed Owner) bool {
		return listed.UID != o.Self && !listed.Terminating && !listed.letGo(live)
	})
}

// owned reports whether the object has another owner reference that counts.
func (o Owners) owned(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		if r.UID == o.Self {
			return false
		}
		return !isAppliedWork(r) || o.Dead == nil || !o.Dead(r.UID)
	})
}

// shared reports whether an object has or had another AppliedWork.
func (o Owners) shared(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.Listed, func(listed Owner) bool { return listed.UID != o.Self }) ||
		slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID != o.Self && isAppliedWork(r)
		})
}

// letGo reports whether an AppliedWork has released the object but still has its entry. A policy
// that keeps the object leaves a trace instead.
func (o Owner) letGo(live *unstructured.Unstructured) bool {
	return o.Applied && o.Object == live.GetUID() && !IsOwnedBy(live, o.UID) && !hasTraces(live, o.UID)
}

// heir returns the AppliedWork that gets the object after ours: one that is about to apply it, if
// the object has no other owner. Without an owner, the object might stay for ever.
func (o Owners) heir(live *unstructured.Unstructured) *Owner {
	if o.owned(live) {
		return nil
	}
	var heir *Owner
	for i, listed := range o.Listed {
		switch {
		case listed.UID == o.Self || listed.Terminating || listed.letGo(live):
		case listed.Applied && listed.Object == live.GetUID():
			return nil // its policy keeps the object without a reference
		case heir == nil:
			heir = &o.Listed[i]
		}
	}
	return heir
}
