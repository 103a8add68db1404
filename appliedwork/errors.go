// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Errors of this package, for errors.Is.
var (
	// ErrTerminating: the AppliedWork is being deleted or does not exist any more, or its objects
	// are being deleted or released.
	ErrTerminating = errors.New("the AppliedWork is terminating: no object is applied for it any more")
	// ErrNameCollision: an AppliedWork of this name exists for another work.
	ErrNameCollision = errors.New("an AppliedWork of this name exists for another work: use the names of NameFor")
	// ErrDuplicate: two manifests describe the same object.
	ErrDuplicate = errors.New("two manifests describe the same object: remove one")
	// ErrGenerateName: a manifest has generateName in place of a name.
	ErrGenerateName = errors.New("an object with generateName cannot be applied: give it a metadata.name")
	// ErrEmptyDesired: no object is desired, so a prune would delete all objects.
	ErrEmptyDesired = errors.New("no object is desired, so a prune would delete all objects: " +
		"set PruneOptions.AllowEmpty to allow that")
	// ErrInvalidObject: a manifest cannot be decoded, is a list, or lacks its apiVersion, kind,
	// name or namespace.
	ErrInvalidObject = errors.New("invalid object")
	// ErrChanged: an object has changed since [ObjectOptions].ResourceVersion.
	ErrChanged = errors.New("the object has changed since it was read: read it again")
	// ErrInvalidInput: an argument or an option is invalid.
	ErrInvalidInput = errors.New("invalid input")
)

// AdoptionError reports that an object existed already and was not adopted.
type AdoptionError struct {
	Key      Key
	UID      types.UID // of the object
	Owners   []metav1.OwnerReference
	Adoption Adoption
}

// Error returns the object, its owners and the remedy.
func (e *AdoptionError) Error() string {
	if e.Adoption == AdoptionIfUnowned {
		names := make([]string, len(e.Owners))
		for i, o := range e.Owners {
			names[i] = o.Kind + " " + o.Name
		}
		return fmt.Sprintf("%s exists and is owned by %s: delete it, or apply with Adoption Always",
			e.Key, strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s exists and is not ours: delete it, or apply with Adoption IfUnowned or Always", e.Key)
}

// OwnershipConflictError reports that other field managers own fields that the manifest sets to
// other values.
type OwnershipConflictError struct {
	Key Key
	// Fields are the conflicting fields with their managers, as the API server writes them.
	Fields []string
	Err    error // the API server's
	paths  []string
}

// Error returns the object, the fields and the remedy.
func (e *OwnershipConflictError) Error() string {
	return fmt.Sprintf("%s: others manage fields of the manifest (%s): "+
		"remove the fields from the manifest, or apply with Force", e.Key, strings.Join(e.Fields, "; "))
}

// Unwrap returns the API server's error.
func (e *OwnershipConflictError) Unwrap() error { return e.Err }

// TypeNotServedError reports that the API server does not serve a kind, or not in the version of
// the manifest. Objects of the kind may exist all the same.
type TypeNotServedError struct {
	Kind schema.GroupKind
	// Version is the version of the manifest, if the server serves only other versions of the kind.
	// Served is one of those.
	Version, Served string
	// Since is when discovery first reported the kind as not served, in this process, or zero.
	Since time.Time
	Err   error // the cause; may be nil
}

// Error returns the kind and the remedy.
func (e *TypeNotServedError) Error() string {
	if e.Version != "" {
		return fmt.Sprintf("the API server does not serve version %s of %s, but serves %s: "+
			"change the apiVersion of the manifest", e.Version, e.Kind, e.Served)
	}
	s := fmt.Sprintf("the API server does not serve %s", e.Kind)
	if !e.Since.IsZero() {
		s += " since " + e.Since.UTC().Format(time.RFC3339)
	}
	return s + ": install its CRD, or wait until it is served"
}

// Unwrap returns the cause.
func (e *TypeNotServedError) Unwrap() error { return e.Err }

// PruneBlockedError reports why an object was not deleted although the work has dropped it. The
// entry of the object stays.
type PruneBlockedError struct {
	Key    Key
	Reason BlockReason
	// Detail describes the reason, for example the object that prevents the deletion.
	Detail string
	// Objects are the first unmanaged objects of a Namespace, three at most, for
	// BlockReasonNamespaceNotEmpty.
	Objects []v1alpha1.AppliedResourceMeta
}

// BlockReason is the reason why an object is not deleted.
type BlockReason string

const (
	// BlockReasonNamespaceInUse: a Namespace contains objects that this or another AppliedWork
	// desires, or that the policies keep.
	BlockReasonNamespaceInUse BlockReason = "NamespaceInUse"
	// BlockReasonNamespaceNotEmpty: a Namespace contains objects that no AppliedWork has applied.
	// See [Policies].Unmanaged.
	BlockReasonNamespaceNotEmpty BlockReason = "NamespaceNotEmpty"
	// BlockReasonNamespaceUnreadable: a kind cannot be discovered or listed, so a Namespace may
	// contain unmanaged objects of the kind.
	BlockReasonNamespaceUnreadable BlockReason = "NamespaceUnreadable"
	// BlockReasonProtected: the object is in [Options].Protected.
	BlockReasonProtected BlockReason = "Protected"
	// BlockReasonCRDInUse: a CRD has an object that is desired, lacks our owner reference, or has
	// another owner.
	BlockReasonCRDInUse BlockReason = "CRDInUse"
	// BlockReasonManifestUnknown: a manifest cannot be decoded or identified, and may describe this
	// object.
	BlockReasonManifestUnknown BlockReason = "ManifestUnknown"
)

// Error returns the object and the reason.
func (e *PruneBlockedError) Error() string {
	return fmt.Sprintf("%s was not deleted (%s): %s", e.Key, e.Reason, e.Detail)
}

// InventoryTooLargeError reports that a work has more objects than its inventory can store.
type InventoryTooLargeError struct {
	Work            string
	Entries, Shards int // that the work needs
	Limit           int // of shards
}

// Error returns the sizes and the remedy.
func (e *InventoryTooLargeError) Error() string {
	return fmt.Sprintf("the inventory of AppliedWork %s would have %d entries in %d shards, at most %d are allowed: "+
		"split the work, or raise Options.MaxShards",
		e.Work, e.Entries, e.Shards, e.Limit)
}

// IsTypeNotServed reports whether an error means that the API server does not serve a type: a
// [*TypeNotServedError], a no-match error of a RESTMapper, or a 404 without the name of an object.
// It returns false for an object that does not exist, although that is a 404 too. An existing
// object can cause this error while its CRD is being deleted or an API server starts.
func IsTypeNotServed(err error) bool {
	if isA[*TypeNotServedError](err) || meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	// A registry always names the object. client-go reports the cause for a response that is not a
	// Status, such as "404 page not found".
	details := status.Status().Details
	return details == nil || details.Name == "" ||
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
