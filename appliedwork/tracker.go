// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/internal/access"
	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Tracker stores the inventories: the objects that were applied, or are about to be applied, for
// each AppliedWork. An inventory that is too large for one AppliedWork continues in further
// AppliedWorks, its shards, which the first owns. Several clients may write an inventory at the
// same time: after a conflict it is read again and merged. All methods may be called concurrently.
// Use one Tracker for the whole process: for each entry without a UID, it stores how long the
// object has been absent.
//
// All methods of this package that accept an AppliedWork use only its name and UID; WaitGone also
// uses its status. If name or UID is missing, or the AppliedWork is a shard, the error is an
// [ErrInvalidInput]. If no AppliedWork with the UID exists any more, the error is an
// [ErrTerminating], except for Teardown, Release, Evict and WaitGone.
type Tracker struct {
	*cluster
	// pruned: the CRD prunes the fields that work-api's CRD does not have. Then a difference in
	// these fields is no reason to write.
	pruned atomic.Bool
}

// NewTracker returns a Tracker. The error is an [ErrInvalidInput].
func NewTracker(opts Options) (*Tracker, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	notServed := func(gk schema.GroupKind) error { return &TypeNotServedError{Kind: gk} }
	return &Tracker{cluster: &cluster{
		opts: opts, kinds: discovery.New(opts.Discovery, opts.Clock, notServed),
		intents: newIntents(opts.Clock, opts.IntentGrace), access: access.New(opts.Reviews, opts.Clock),
	}}, nil
}

// Ensure returns the AppliedWork of a name, and creates it if it does not exist. The error is
// [ErrNameCollision] if the AppliedWork has another spec, [ErrTerminating] if it is terminating, a
// [*TypeNotServedError] if the CRD is not installed, or an error of the API server.
func (t *Tracker) Ensure(
	ctx context.Context, name string, spec v1alpha1.AppliedWorkSpec,
) (*v1alpha1.AppliedWork, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: the name of the AppliedWork is empty: use NameFor", ErrInvalidInput)
	}
	work := &v1alpha1.AppliedWork{Spec: spec}
	work.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	work.Name = name
	for {
		s, err := t.fetch(ctx, name)
		if err == nil && s == nil {
			s, err = t.create(ctx, work)
			if apierrors.IsAlreadyExists(err) {
				continue // created meanwhile: compare its spec
			}
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("ensure AppliedWork %s: %w", name, err)
		case s.work.Spec != spec || s.work.Labels[v1alpha1.LabelShardOf] != "":
			err := fmt.Errorf("%w: %s is for %s/%s", ErrNameCollision, name, s.work.Spec.WorkNamespace, s.work.Spec.WorkName)
			t.refused(s.work, err)
			return nil, err
		case isTerminating(s.work):
			return nil, fmt.Errorf("%w: %s", ErrTerminating, name)
		}
		return s.work, nil
	}
}

// RecordIntent records objects that are about to be applied. An object that was recorded before
// keeps its UID. The error is [ErrTerminating], an [*InventoryTooLargeError], or an error of the
// API server. After an error, do not apply the objects; some of them may be recorded.
func (t *Tracker) RecordIntent(
	ctx context.Context, work *v1alpha1.AppliedWork, objects ...v1alpha1.ResourceIdentifier,
) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, work.Name)
		}
		for _, id := range objects {
			e := inv.entry(KeyOf(id))
			e.ResourceIdentifier = id
			inv.put(e)
		}
		return nil
	})
	return err
}

// recordNewIntent records that an object is about to be created again.
func (t *Tracker) recordNewIntent(
	ctx context.Context, work *v1alpha1.AppliedWork, id v1alpha1.ResourceIdentifier,
) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, work.Name)
		}
		inv.put(v1alpha1.AppliedResourceMeta{ResourceIdentifier: id})
		return nil
	})
	return err
}

// RecordApplied records objects that were applied, each with its UID. Other entries stay. It also
// accepts an AppliedWork that is terminating, because the objects must be deleted with it.
func (t *Tracker) RecordApplied(
	ctx context.Context, work *v1alpha1.AppliedWork, objects ...v1alpha1.AppliedResourceMeta,
) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		for _, e := range objects {
			inv.put(e)
		}
		return nil
	})
	return err
}

// Forget removes entries from the inventory. An entry with another UID stays, because the object
// was applied again.
func (t *Tracker) Forget(
	ctx context.Context, work *v1alpha1.AppliedWork, entries ...v1alpha1.AppliedResourceMeta,
) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		inv.remove(entries)
		return nil
	})
	return err
}

// Entries returns the inventory, including its shards.
func (t *Tracker) Entries(ctx context.Context, work *v1alpha1.AppliedWork) ([]v1alpha1.AppliedResourceMeta, error) {
	inv, err := t.load(ctx, work)
	if err != nil {
		return nil, err
	}
	return inv.entries(), nil
}

// Owners returns the AppliedWorks that have an object in their inventories, from one consistent
// list: see [Options].InventoryMetadata.
func (t *Tracker) Owners(ctx context.Context, key Key) ([]Owner, error) {
	c, err := t.claims(ctx, "", map[Key]bool{key: true})
	if err != nil {
		return nil, err
	}
	return c.listed[key], nil
}
