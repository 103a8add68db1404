// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Tracker keeps the inventories: which objects were applied, or are about to be, for which AppliedWork. An inventory that
// is too large for one object goes on in further AppliedWorks, its shards, which belong to it and go with it. Several
// clients may write one at the same time: a conflict is read again and merged. All methods may be called concurrently.
//
// Whatever takes an AppliedWork needs its name and UID only, and returns an [ErrInvalidInput] without them, or when it is a
// shard. When there is none of that UID any more, the error is an [ErrTerminating].
type Tracker struct {
	*cluster
	// bare is whether the CRD prunes what work-api's does not have; see extras.
	bare extrasKnown
}

// NewTracker returns a Tracker. The error is an [ErrInvalidInput].
func NewTracker(opts Options) (*Tracker, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	return &Tracker{cluster: &cluster{
		opts: opts, kinds: newKinds(opts.Discovery, opts.Clock), intents: newIntents(opts.Clock, opts.IntentGrace),
		access: newAccess(opts.Reviews, opts.Clock),
	}}, nil
}

// Ensure returns the AppliedWork of a name, which it creates if there is none. The error is [ErrNameCollision] when there
// is one with another spec, [ErrTerminating] when there is one that is terminating, or the API server's.
func (t *Tracker) Ensure(ctx context.Context, name string, spec v1alpha1.AppliedWorkSpec) (*v1alpha1.AppliedWork, error) {
	work := &v1alpha1.AppliedWork{Spec: spec}
	work.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	work.Name = name
	for {
		s, err := t.fetch(ctx, name)
		if err == nil && s == nil {
			s, err = t.create(ctx, work)
			if apierrors.IsAlreadyExists(err) {
				continue // somebody else was faster: see whether it is the same
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

// RecordIntent records objects that are about to be applied; Applier does it. What was recorded before keeps its UID.
// The error is [ErrTerminating], an [*InventoryTooLargeError], or the API server's; then nothing may be applied, though
// some of the intents may be recorded.
func (t *Tracker) RecordIntent(ctx context.Context, work *v1alpha1.AppliedWork, objects ...v1alpha1.ResourceIdentifier) error {
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

// intendAnew records that an object is about to be made again: the UID that was recorded is of one that is gone.
func (t *Tracker) intendAnew(ctx context.Context, work *v1alpha1.AppliedWork, id v1alpha1.ResourceIdentifier) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		if inv.terminating() {
			return fmt.Errorf("%w: %s", ErrTerminating, work.Name)
		}
		inv.put(v1alpha1.AppliedResourceMeta{ResourceIdentifier: id})
		return nil
	})
	return err
}

// RecordApplied records objects that were applied, each with its UID; Applier does it. What is recorded meanwhile by others
// stays. It works for an AppliedWork that is terminating too, so that what was applied is deleted with it.
func (t *Tracker) RecordApplied(ctx context.Context, work *v1alpha1.AppliedWork, objects ...v1alpha1.AppliedResourceMeta) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		for _, e := range objects {
			inv.put(e)
		}
		return nil
	})
	return err
}

// Forget takes entries out of the inventory; Pruner does it. An entry whose UID is another by now stays: the object was
// applied again since.
func (t *Tracker) Forget(ctx context.Context, work *v1alpha1.AppliedWork, entries ...v1alpha1.AppliedResourceMeta) error {
	_, err := t.update(ctx, work, nil, func(inv *inventory) error {
		inv.remove(entries)
		return nil
	})
	return err
}

// Entries returns the inventory, with that of its shards.
func (t *Tracker) Entries(ctx context.Context, work *v1alpha1.AppliedWork) ([]v1alpha1.AppliedResourceMeta, error) {
	inv, err := t.load(ctx, work)
	if err != nil {
		return nil, err
	}
	return inv.entries(), nil
}

// Owners returns the AppliedWorks that have an object in their inventories, as of one consistent list of all AppliedWorks: see
// [Options].InventoryMetadata.
func (t *Tracker) Owners(ctx context.Context, key Key) ([]Owner, error) {
	c, err := t.claims(ctx, "", map[Key]bool{key: true})
	if err != nil {
		return nil, err
	}
	return c.listed[key], nil
}

// fetch reads one AppliedWork; nil when there is none.
func (t *Tracker) fetch(ctx context.Context, name string) (*shard, error) {
	raw, err := t.works().Get(ctx, name, metav1.GetOptions{})
	if IsTypeNotServed(err) {
		return nil, &TypeNotServedError{Kind: v1alpha1.GroupVersionKind.GroupKind(), Err: err}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeShard(raw)
}

func (t *Tracker) create(ctx context.Context, work *v1alpha1.AppliedWork) (*shard, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(work)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	raw, err := t.works().Create(ctx, asUnstructured(object), metav1.CreateOptions{FieldManager: inventoryManager})
	if IsTypeNotServed(err) {
		return nil, &TypeNotServedError{Kind: v1alpha1.GroupVersionKind.GroupKind(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return decodeShard(raw)
}
