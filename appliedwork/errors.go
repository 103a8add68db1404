// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// The reasons for which methods fail, for errors.Is.
var (
	// ErrTerminating: the AppliedWork is being deleted, is gone, or its objects are being deleted or released.
	ErrTerminating = errors.New("the AppliedWork is terminating: nothing is applied for it any more")
	// ErrNameCollision: an AppliedWork of this name exists for another work.
	ErrNameCollision = errors.New("an AppliedWork of this name exists for another work: use the names of NameFor")
	// ErrDuplicate: two manifests are of the same object.
	ErrDuplicate = errors.New("two manifests are of the same object: remove one")
	// ErrGenerateName: an object has generateName in place of a name.
	ErrGenerateName = errors.New("an object with generateName cannot be applied: give it a metadata.name")
	// ErrEmptyDesired: nothing is desired, which would delete everything.
	ErrEmptyDesired = errors.New("nothing is desired, which would delete everything: set AllowEmpty if that is meant")
	// ErrInvalidObject: a manifest could not be decoded, or lacks what every object has.
	ErrInvalidObject = errors.New("invalid object")
	// ErrChanged: an object is not the one of [ObjectOptions].ResourceVersion any more.
	ErrChanged = errors.New("it has changed since it was read: read it again")
	// ErrInvalidInput: an argument or an option cannot be used.
	ErrInvalidInput = errors.New("invalid input")
)

// AdoptionError says why an object that existed already was not adopted.
type AdoptionError struct {
	Key      Key
	UID      types.UID // of the object
	Owners   []metav1.OwnerReference
	Adoption Adoption
}

// Error says what exists, who owns it and what to do.
func (e *AdoptionError) Error() string {
	if e.Adoption == AdoptIfUnowned {
		names := make([]string, len(e.Owners))
		for i, o := range e.Owners {
			names[i] = o.Kind + " " + o.Name
		}
		return fmt.Sprintf("%s exists and is owned by %s: delete it, or apply with Adoption Always", e.Key, strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s exists and is not ours: delete it, or apply with Adoption IfUnowned or Always", e.Key)
}

// OwnershipConflictError says that others manage fields of an object that the manifest sets to something else.
type OwnershipConflictError struct {
	Key Key
	// Fields are what is in conflict, each with its manager, in the API server's words.
	Fields []string
	Err    error // the API server's
	paths  []string
}

// Error says which fields of which object, and what to do.
func (e *OwnershipConflictError) Error() string {
	return fmt.Sprintf("%s: others manage fields of the manifest (%s): take them out, or apply with Force", e.Key, strings.Join(e.Fields, "; "))
}

// Unwrap returns the API server's error.
func (e *OwnershipConflictError) Unwrap() error { return e.Err }

// TypeNotServedError says that the API server does not serve a kind, or not in the version of a manifest. That is no proof that
// its objects are gone.
type TypeNotServedError struct {
	Kind schema.GroupKind
	// Version is what a manifest has and the server does not, and Served one that it does serve; both are empty when it
	// serves none.
	Version, Served string
	// Since is when discovery first said so, in this process; zero where that was not asked.
	Since time.Time
	Err   error // where there is one
}

// Error names the kind and what to do.
func (e *TypeNotServedError) Error() string {
	if e.Version != "" {
		return fmt.Sprintf("the API server does not serve version %s of %s, but %s: write the manifest for that", e.Version, e.Kind, e.Served)
	}
	s := fmt.Sprintf("the API server does not serve %s", e.Kind)
	if !e.Since.IsZero() {
		s += " since " + e.Since.UTC().Format(time.RFC3339)
	}
	return s + ": install its CRD, or wait until it is served"
}

// Unwrap returns the cause.
func (e *TypeNotServedError) Unwrap() error { return e.Err }

// PruneBlockedError says why an object was not deleted although nobody desires it. Its entry stays.
type PruneBlockedError struct {
	Key    Key
	Reason BlockReason
	// Detail says more: the object that is in the way, for instance.
	Detail string
	// Objects are the first unmanaged objects of a Namespace, three at most. They are set for NamespaceNotEmpty only.
	Objects []v1alpha1.AppliedResourceMeta
}

// BlockReason is why an object is not deleted.
type BlockReason string

const (
	// NamespaceInUse: a Namespace holds objects that are desired, by this or another AppliedWork, or that the policy leaves.
	NamespaceInUse BlockReason = "NamespaceInUse"
	// NamespaceNotEmpty: a Namespace contains objects that no AppliedWork has applied. See [Policies].Unmanaged.
	NamespaceNotEmpty BlockReason = "NamespaceNotEmpty"
	// NamespaceUnreadable: a kind cannot be discovered or listed, so a Namespace may contain unmanaged objects of the kind.
	NamespaceUnreadable BlockReason = "NamespaceUnreadable"
	// Protected: the object is in [Options].Protected.
	Protected BlockReason = "Protected"
	// CRDInUse: a CRD has objects that are desired, or not ours, or not ours alone, and would be deleted with it.
	CRDInUse BlockReason = "CRDInUse"
	// ManifestUnknown: a manifest cannot be decoded or identified, and may be the one of this object.
	ManifestUnknown BlockReason = "ManifestUnknown"
)

// Error says what was not deleted and why.
func (e *PruneBlockedError) Error() string {
	return fmt.Sprintf("%s was not deleted (%s): %s", e.Key, e.Reason, e.Detail)
}

// InventoryTooLargeError says that a work has more objects than an inventory takes.
type InventoryTooLargeError struct {
	Work            string
	Entries, Shards int // that it would have
	Limit           int // of shards
}

// Error says how large it is and what to do.
func (e *InventoryTooLargeError) Error() string {
	return fmt.Sprintf("the inventory of AppliedWork %s would have %d entries in %d shards, of which %d are allowed: split the work, or raise Options.MaxShards",
		e.Work, e.Entries, e.Shards, e.Limit)
}
