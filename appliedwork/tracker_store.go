// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// inventoryManager is the field manager of writes to AppliedWorks.
const inventoryManager = "appliedwork-inventory"

func (t *Tracker) works() dynamic.ResourceInterface {
	return t.opts.Inventory.Resource(v1alpha1.GroupVersionResource)
}

func asUnstructured(object map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object}
}

func decodeShard(raw *unstructured.Unstructured) (*shard, error) {
	work := &v1alpha1.AppliedWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, work); err != nil {
		return nil, fmt.Errorf("decode AppliedWork %s: %w", raw.GetName(), err)
	}
	return &shard{raw: raw, work: work}, nil
}

// checkWork returns an error for an AppliedWork without a name or UID, which would seem deleted.
func checkWork(work *v1alpha1.AppliedWork) error {
	switch {
	case work == nil:
		return fmt.Errorf("%w: the AppliedWork is nil", ErrInvalidInput)
	case work.Name == "" || work.UID == "":
		return fmt.Errorf("%w: AppliedWork with name %q and UID %q: must have both: use the result of Ensure",
			ErrInvalidInput, work.Name, work.UID)
	}
	return nil
}

// load reads an inventory: the announced number of shards, and further ones while they exist. More
// than MaxShards missing shards are an error.
func (t *Tracker) load(ctx context.Context, work *v1alpha1.AppliedWork) (*inventory, error) {
	if err := checkWork(work); err != nil {
		return nil, err
	}
	main, err := t.fetch(ctx, work.Name)
	if err != nil {
		return nil, fmt.Errorf("read AppliedWork %s: %w", work.Name, err)
	}
	if main == nil || main.work.UID != work.UID {
		return nil, fmt.Errorf("%w: %s with UID %s is gone", ErrTerminating, work.Name, work.UID)
	}
	if of := main.work.Labels[v1alpha1.LabelShardOf]; of != "" {
		return nil, fmt.Errorf("%w: AppliedWork %s is a shard: use the AppliedWork with UID %s",
			ErrInvalidInput, work.Name, of)
	}
	shards := []*shard{main}
	for n, missing := 1, 0; ; n++ {
		s, err := t.fetch(ctx, shardName(main.work, n))
		if err != nil {
			return nil, fmt.Errorf("read shard %d of AppliedWork %s: %w", n, work.Name, err)
		}
		if s == nil && n > shardsOf(main.work) {
			break
		}
		if s == nil { // announced, but not written before a crash, or deleted by others
			if missing++; missing > t.opts.MaxShards {
				return nil, fmt.Errorf("AppliedWork %s announces %d shards, and more than %d of them do not exist: "+
					"correct the annotation %s and status.shards",
					work.Name, shardsOf(main.work), t.opts.MaxShards, v1alpha1.AnnotationShards)
			}
			s = newShard(main.work, n)
		} else if !IsOwnedBy(s.work, main.work.UID) && s.work.Labels[v1alpha1.LabelShardOf] != string(main.work.UID) {
			return nil, fmt.Errorf("%w: %s has the name of a shard of %s", ErrNameCollision, s.work.Name, work.Name)
		}
		shards = append(shards, s)
	}
	for _, s := range shards {
		t.addKinds(ctx, s.work.Status.AppliedResources)
	}
	return newInventory(t.opts.MaxShardBytes, shards...), nil
}

// addKinds adds the kinds that older implementations did not record, if the server serves them.
func (t *Tracker) addKinds(ctx context.Context, entries []v1alpha1.AppliedResourceMeta) {
	for i := range entries {
		if e := &entries[i]; e.Kind == "" && e.Resource != "" {
			resource := schema.GroupResource{Group: e.Group, Resource: e.Resource}
			if m, err := t.kinds.ResolveResource(ctx, resource, e.Version); err == nil {
				e.Kind = m.Kind
			}
		}
	}
}

// update changes an inventory, given as from if it was read before, and writes the changes. After a
// conflict, it reads and changes the inventory again.
func (t *Tracker) update(
	ctx context.Context, work *v1alpha1.AppliedWork, from *inventory, change func(*inventory) error,
) (*inventory, error) {
	for attempt := 0; ; attempt++ {
		inv := from
		if inv == nil {
			var err error
			if inv, err = t.load(ctx, work); err != nil {
				return nil, err
			}
		}
		err := change(inv)
		if err != nil && !errors.Is(err, errMoved) {
			return nil, err
		}
		if err == nil {
			err = t.save(ctx, inv)
		}
		if err == nil {
			return inv, nil
		}
		if !errors.Is(err, errMoved) || attempt == attempts {
			return nil, fmt.Errorf("write the inventory of AppliedWork %s: %w", work.Name, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
		from = nil
	}
}

// save writes the shards that have changed, and then the AppliedWork itself.
func (t *Tracker) save(ctx context.Context, inv *inventory) error {
	// An inventory that had more shards before the limit was lowered can still shrink and end.
	grows := func(s *shard) bool { return s.raw == nil && s.changed }
	if n := len(inv.shards); n > t.opts.MaxShards && slices.ContainsFunc(inv.shards, grows) {
		return &InventoryTooLargeError{Work: inv.main().Name, Entries: inv.count(), Shards: n, Limit: t.opts.MaxShards}
	}
	if err := t.announce(ctx, inv); err != nil {
		return err
	}
	for _, s := range inv.shards[1:] {
		if !s.changed {
			continue
		}
		if s.raw == nil {
			created, err := t.create(ctx, s.work)
			if apierrors.IsAlreadyExists(err) {
				return errMoved
			}
			if err != nil {
				return fmt.Errorf("create shard %s: %w", s.work.Name, err)
			}
			s.raw = created.raw
		}
		if err := t.writeStatus(ctx, s); err != nil {
			return err
		}
	}
	return t.saveMain(ctx, inv)
}

// saveMain writes the AppliedWork itself if its entries or its counts have changed.
func (t *Tracker) saveMain(ctx context.Context, inv *inventory) error {
	main, status := inv.shards[0], &inv.main().Status
	count, shards := int32(inv.count()), int32(len(inv.shards)-1)
	if !t.pruned.Load() && (status.ResourceCount != count || status.Shards != shards ||
		status.ObservedGeneration != main.work.Generation) {
		main.changed = true
	}
	status.ResourceCount, status.Shards, status.ObservedGeneration = count, shards, main.work.Generation
	if !main.changed {
		return nil
	}
	if err := t.writeStatus(ctx, main); err != nil {
		return err
	}
	kept, _, _ := unstructured.NestedInt64(main.raw.Object, "status", "observedGeneration")
	t.pruned.Store(kept == 0)
	return nil
}

// announce records the future number of shards before the first of them is created.
func (t *Tracker) announce(ctx context.Context, inv *inventory) error {
	main := inv.shards[0]
	n := len(inv.shards) - 1
	announced, err := strconv.Atoi(main.work.Annotations[v1alpha1.AnnotationShards])
	if n == 0 || err == nil && announced >= n {
		return nil
	}
	return t.annotate(ctx, main, v1alpha1.AnnotationShards, strconv.Itoa(n))
}

// annotate sets an annotation of the AppliedWork that was read, or removes it if value is nil.
func (t *Tracker) annotate(ctx context.Context, s *shard, name string, value any) error {
	return t.patchMain(ctx, s, map[string]any{"annotations": map[string]any{name: value}})
}

// patchMain merges metadata into the AppliedWork that was read.
func (t *Tracker) patchMain(ctx context.Context, s *shard, metadata map[string]any) error {
	raw, err := patchMetadata(ctx, t.works(), s.raw, metadata, inventoryManager)
	if errors.Is(err, errMoved) {
		return err
	}
	if err != nil {
		return fmt.Errorf("patch the metadata of AppliedWork %s: %w", s.work.Name, err)
	}
	read, err := decodeShard(raw)
	if err != nil {
		return err
	}
	s.raw, s.work.ObjectMeta = raw, read.work.ObjectMeta // the status of s.work stays: it is about to be written
	return nil
}

// writeStatus writes the status of the shard that was read.
func (t *Tracker) writeStatus(ctx context.Context, s *shard) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s.work.Status)
	if err != nil {
		return err
	}
	raw := asUnstructured(runtime.DeepCopyJSON(map[string]any{
		"metadata": s.raw.Object["metadata"], "spec": s.raw.Object["spec"],
	}))
	raw.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	if old, ok := s.raw.Object["status"].(map[string]any); ok {
		for field, value := range old { // fields of newer versions stay
			if _, known := status[field]; !known && !statusFields[field] {
				status[field] = value
			}
		}
	}
	raw.Object["status"] = status
	written, err := t.works().UpdateStatus(ctx, raw, metav1.UpdateOptions{FieldManager: inventoryManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) && !IsTypeNotServed(err) {
		return errMoved
	}
	if err != nil {
		return fmt.Errorf("write the status of AppliedWork %s: %w", s.work.Name, err)
	}
	s.raw, s.changed = written, false
	s.work.ResourceVersion = written.GetResourceVersion()
	return nil
}

var statusFields = map[string]bool{
	"appliedResources": true, "conditions": true, "observedGeneration": true, "evictionStartTime": true,
	"resourceCount": true, "shards": true,
}

// fetch reads one AppliedWork, or returns nil if it does not exist.
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
