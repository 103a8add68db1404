// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
)

// ApplyOptions are the options of [Applier.Apply]. The zero value is useful.
type ApplyOptions struct {
	// Adoption decides whether an existing object that the AppliedWork does not own is adopted. An
	// adoption removes the annotations and the field managers of deleted AppliedWorks. Defaults to
	// AdoptionNever.
	Adoption Adoption
	// FieldManager is the prefix of the field manager's name. The UID of the AppliedWork follows,
	// because two works with the same field manager remove each other's owner references. The
	// prefix may change: the next apply moves the fields of the earlier field manager to the new
	// one. At most 90 characters. Defaults to "appliedwork".
	FieldManager string
	// Policies decide which objects stay when the work drops them. Use the same in Prune and
	// Teardown. An object that stays gets no owner reference.
	Policies Policies
	// Force overwrites conflicting fields of other field managers. Without Force, such fields are an
	// [*OwnershipConflictError], and the other fields are applied. Nothing is applied if the object is
	// not adopted yet, or if the other manager wrote a conflicting field in another API version.
	// Fields without a manager need no Force.
	Force bool
	// MigrateManagers are field managers of earlier tools, such as "kubectl-client-side-apply".
	// Their fields move to FieldManager. Those that are not in the manifest are removed.
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
	// not write is Forbidden; the other objects are applied. Requires [Options].Reviews. Nil means
	// no check.
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
	// Partial marks a manifest with only some of the fields that the work applies to the object. With
	// Partial, fields that the AppliedWork has applied with another FieldManager stay; otherwise they
	// move to this one.
	Partial bool
	// ResourceVersion is the version of the live object on which the manifest is based. If the
	// object has changed since, it is not written, and the error is [ErrChanged].
	ResourceVersion string
	// IgnoreFields are JSON pointers (RFC 6901) into the manifest, such as /spec/replicas. Apply sends
	// these fields when it creates the object. Later it keeps their live values, even if the manifest
	// no longer has such a field. List items are matched by their keys. A change of an ignored field
	// alone causes no write. StrategyUpdate and Force respect IgnoreFields. An invalid pointer is an
	// [ErrInvalidInput]; see [CheckIgnoreFields].
	IgnoreFields []string
	// IgnoreChangedFields are like IgnoreFields, but only for fields that others have changed.
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
	// ActionRetained. Prune needs the option too, in [PruneOptions].ByKey: it then releases an
	// object that the work applied before.
	StrategyReadOnly Strategy = "ReadOnly"
)

const (
	defaultFieldManager = "appliedwork"
	// maxFieldManager leaves room for the UID: the API server accepts 128 characters.
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
		return o, fmt.Errorf("%w: ApplyOptions.FieldManager: %d characters: must have at most %d",
			ErrInvalidInput, len(o.FieldManager), maxFieldManager)
	}
	for key, object := range o.ByKey {
		if len(object.FieldManager) > maxFieldManager {
			return o, fmt.Errorf("%w: FieldManager in ApplyOptions.ByKey of %s: %d characters: must have at most %d",
				ErrInvalidInput, key, len(object.FieldManager), maxFieldManager)
		}
		switch object.Strategy {
		case "", StrategyServerSideApply, StrategyUpdate, StrategyCreateOnly, StrategyReadOnly:
		default:
			return o, fmt.Errorf("%w: Strategy in ApplyOptions.ByKey of %s: %q: "+
				"must be ServerSideApply, Update, CreateOnly or ReadOnly", ErrInvalidInput, key, object.Strategy)
		}
		if err := CheckIgnoreFields(nil, slices.Concat(object.IgnoreFields, object.IgnoreChangedFields)...); err != nil {
			return o, fmt.Errorf("check IgnoreFields in ApplyOptions.ByKey of %s: %w", key, err)
		}
	}
	return o, o.Policies.validate()
}

func (o ApplyOptions) of(key Key) ObjectOptions {
	object, ok := byKey(o.ByKey, key)
	if !ok {
		object.Force, object.Recreate = o.Force, o.Recreate
	}
	object.Force = object.Force || object.Strategy == StrategyUpdate
	object.FieldManager = cmp.Or(object.FieldManager, o.FieldManager, defaultFieldManager)
	return object
}

// CheckIgnoreFields returns an [ErrInvalidInput] for the first JSON pointer that
// [ObjectOptions].IgnoreFields and IgnoreChangedFields do not accept for a manifest. With a nil
// manifest it checks only the pointers themselves.
func CheckIgnoreFields(manifest *unstructured.Unstructured, pointers ...string) error {
	for _, pointer := range pointers {
		if err := fieldset.CheckPointer(manifest, pointer); err != nil {
			return fmt.Errorf("%w: %.1000q: %w", ErrInvalidInput, pointer, err)
		}
	}
	return nil
}

func ignoredOf(manifest *unstructured.Unstructured, options ObjectOptions) (*fieldset.Ignored, error) {
	if len(options.IgnoreFields) == 0 && len(options.IgnoreChangedFields) == 0 {
		return nil, nil
	}
	err := CheckIgnoreFields(manifest, slices.Concat(options.IgnoreFields, options.IgnoreChangedFields)...)
	if err != nil {
		return nil, err
	}
	return fieldset.Ignore(manifest, options.IgnoreFields, options.IgnoreChangedFields)
}
