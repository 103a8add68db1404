// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of conditions of an AppliedWork.
const (
	// ConditionApplied: the last apply has applied all objects.
	ConditionApplied = "Applied"
	// ConditionPruned: the last prune has deleted or released all objects that are not desired.
	ConditionPruned = "Pruned"
	// ConditionTerminating: the objects are being deleted or released, and no object is applied any
	// more.
	ConditionTerminating = "Terminating"
	// ConditionEvicting: the objects are deleted after a grace period.
	ConditionEvicting = "Evicting"
)

// Annotations and labels of an AppliedWork and of the objects that it owns. They are in the
// metadata because the API server prunes status fields that an older CRD does not have.
const (
	// AnnotationTerminating is on an AppliedWork that ends. Its objects are being deleted
	// ("Teardown"), deleted except those that the policies keep ("PartialTeardown"), or released
	// ("Release").
	AnnotationTerminating = GroupName + "/terminating"
	// AnnotationEvictionStart is the time (RFC 3339) at which an eviction began.
	AnnotationEvictionStart = GroupName + "/eviction-start-time"
	// AnnotationShards is the number of shards: further AppliedWorks with entries of this one.
	AnnotationShards = GroupName + "/shards"
	// LabelShardOf is the label of a shard, with the UID of its AppliedWork.
	LabelShardOf = GroupName + "/shard-of"
	// AnnotationAppliedHashPrefix is the prefix of an annotation of an object, followed by the UID
	// of the AppliedWork. The value is the hash of the last applied manifest.
	AnnotationAppliedHashPrefix = GroupName + "/applied-hash-"
	// AnnotationAdoptedPrefix is the prefix of an annotation of an adopted object, followed by the
	// UID of the AppliedWork. It is for CRDs without the field [AppliedResourceMeta].Adopted.
	AnnotationAdoptedPrefix = GroupName + "/adopted-"
	// AnnotationKeptPrefix is the prefix of an annotation of an object that the policy of an
	// AppliedWork keeps, followed by the UID of the AppliedWork. Other AppliedWorks do not delete
	// the object either.
	AnnotationKeptPrefix = GroupName + "/kept-"
	// AnnotationPrune is for users, on a manifest or on the object on a cluster. With the value
	// "disabled", the object stays with its Namespace and its CRD when the work drops it or ends.
	// The next apply removes its owner reference. Before that, the garbage collector deletes the
	// object if the AppliedWork is deleted.
	AnnotationPrune = GroupName + "/prune"
)
