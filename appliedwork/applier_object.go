// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// establishLimit is how long Apply waits for a CRD of the work to be served before its objects fail.
	establishLimit  = 15 * time.Second
	establishPeriod = 50 * time.Millisecond
	// causeNamespaceTerminating is corev1.NamespaceTerminatingCause.
	causeNamespaceTerminating metav1.CauseType = "NamespaceTerminating"
)

// apply writes the objects, wave by wave.
func (r *applyRun) apply(ctx context.Context) {
	waves := byRank(len(r.items), func(i int) schema.GroupKind { return r.items[i].change.Key.GroupKind() })
	for _, wave := range waves {
		r.resolveLate(ctx, wave)
		parallel(ctx, len(wave), r.opts.Concurrency, func(n int) {
			if item := r.items[wave[n]]; !item.done {
				r.applyOne(ctx, item)
			}
		})
	}
}

// resolveLate finds the resources of kinds whose CRDs were applied in an earlier wave, and reads what is there of them.
func (r *applyRun) resolveLate(ctx context.Context, wave []int) {
	var late []*applyItem
	errs := map[schema.GroupVersionKind]error{}
	limit := time.Now().Add(establishLimit) // for all kinds together
	for _, i := range wave {
		item := r.items[i]
		if item.done || item.mapped {
			continue
		}
		gvk := item.change.Key.GroupKind().WithVersion(item.id.Version)
		if _, known := errs[gvk]; !known {
			errs[gvk] = r.awaitKind(ctx, gvk, item, limit)
		}
		err := errs[gvk]
		if err == nil {
			item.mapping, err = r.kinds.resolveExactly(ctx, gvk)
		}
		if err != nil {
			item.finish(ActionFailed, fmt.Errorf("apply %s: %w", item.change.Key, err))
			continue
		}
		item.mapped = true
		late = append(late, item)
	}
	r.read(ctx, late)
}

// awaitKind waits until the kind of a CRD that was applied is served: discovery says so, and a request for an object of it is
// answered, which may be later.
func (r *applyRun) awaitKind(ctx context.Context, gvk schema.GroupVersionKind, item *applyItem, limit time.Time) error {
	if crd := r.items[r.announced[gvk].crd].change; crd.Action == ActionFailed || crd.Action == ActionPending {
		return fmt.Errorf("%w (%s is in the work and %s)", &TypeNotServedError{Kind: gvk.GroupKind()}, crd.Key, crd.Action)
	}
	var notServed error
	err := wait.PollUntilContextTimeout(ctx, establishPeriod, max(time.Until(limit), establishPeriod), true, func(context.Context) (bool, error) {
		r.kinds.forget(ctx, gvk.Group)
		m, err := r.kinds.resolveExactly(ctx, gvk)
		if err == nil {
			if f := r.get(ctx, target{m, item.id.Namespace, item.id.Name}); IsTypeNotServed(f.err) {
				err = f.err
			}
		}
		if IsTypeNotServed(err) {
			notServed = err
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && notServed != nil {
		return notServed
	}
	return err
}

// applyOne writes one object, and again when somebody else was faster.
func (r *applyRun) applyOne(ctx context.Context, item *applyItem) {
	unowned := isProtected(item.change.Key)
	manifest, err := manifestOf(item.source, item.id.Namespace, r.work, unowned)
	if err != nil {
		item.finish(ActionFailed, fmt.Errorf("apply %s: %w", item.change.Key, err))
		return
	}
	for attempt := 0; ; attempt++ {
		err = r.step(ctx, item, manifest)
		if item.done {
			return
		}
		if !errors.Is(err, errMoved) || attempt == attempts {
			item.finish(ActionFailed, fmt.Errorf("apply %s: %w", item.change.Key, err))
			return
		}
		if err := pause(ctx, attempt); err != nil {
			item.finish(ActionFailed, err)
			return
		}
		f := r.get(ctx, target{item.mapping, item.id.Namespace, item.id.Name})
		if f.err != nil {
			item.finish(ActionFailed, fmt.Errorf("read %s: %w", item.change.Key, f.err))
			return
		}
		item.live = f.obj
	}
}

// step does what the object as it was read needs. The error is errMoved when it is another by now.
func (r *applyRun) step(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured) error {
	live := item.live
	if item.version != "" && (live == nil || live.GetResourceVersion() != item.version) {
		item.finish(ActionFailed, fmt.Errorf("apply %s: %w", item.change.Key, ErrChanged))
		return nil
	}
	if live == nil {
		return r.create(ctx, item, manifest)
	}
	item.change.UID = live.GetUID()
	if live.GetDeletionTimestamp() != nil {
		item.finish(ActionPending, fmt.Errorf("%s is being deleted, and is applied when it is gone", item.change.Key))
		return nil
	}
	ours := IsOwnedBy(live, r.work.UID) || r.inventory.uid(item.change.Key) == live.GetUID()
	action := ActionConfigured
	if !ours {
		if err := mayAdopt(item.change.Key, live, r.opts.Adoption); err != nil {
			item.finish(ActionFailed, err)
			return nil
		}
		action = ActionAdopted
	}
	if ours && isUnchanged(live, manifest, r.work.UID, item.manager) {
		item.change.Live = live
		item.finish(ActionUnchanged, nil)
		return nil
	}
	return r.patch(ctx, item, manifest, action)
}

func mayAdopt(key Key, live *unstructured.Unstructured, adoption Adoption) error {
	owners := live.GetOwnerReferences()
	if adoption == AdoptAlways || adoption == AdoptIfUnowned && len(owners) == 0 {
		return nil
	}
	return &AdoptionError{Key: key, UID: live.GetUID(), Owners: owners, Adoption: adoption}
}

// create makes the object with a create, not an apply, which would silently take over what somebody else has made since.
func (r *applyRun) create(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured) error {
	if uid := r.inventory.uid(item.change.Key); uid != "" {
		// It was there when the intent was recorded, and is gone. What is made now is another object.
		if err := r.tracker.intendAnew(ctx, r.work, item.id); err != nil {
			return err
		}
	}
	created, err := r.resource(item.mapping, item.id.Namespace).Create(ctx, manifest, metav1.CreateOptions{FieldManager: item.manager})
	switch {
	case err == nil:
		item.change.UID, item.change.Live = created.GetUID(), created
		item.finish(ActionCreated, nil)
		return nil
	case apierrors.IsAlreadyExists(err):
		return errMoved
	case apierrors.HasStatusCause(err, causeNamespaceTerminating):
		item.finish(ActionPending, err)
		return nil
	}
	return r.explain(ctx, item, err)
}

// patch applies the manifest to the object that was read, and to no other of its name: its UID is part of what is sent.
func (r *applyRun) patch(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured, action Action) error {
	client, live := r.resource(item.mapping, item.id.Namespace), item.live
	rv := live.GetResourceVersion()
	if managed := asApplied(live.GetManagedFields(), item.manager, r.isOurs(item)); managed != nil {
		// What we have created, or applied under another name, counts as applied by this one from now on.
		metadata := map[string]any{"uid": live.GetUID(), "resourceVersion": rv, "managedFields": managed}
		upgraded, err := r.patchMetadata(ctx, item.mapping, live, metadata, item.manager)
		if err != nil {
			return r.explain(ctx, item, err)
		}
		rv = upgraded.GetResourceVersion()
	}
	body := manifest.DeepCopy()
	body.SetUID(live.GetUID())
	if action == ActionAdopted || item.version != "" {
		body.SetResourceVersion(rv) // who owns it, or what it has, was looked at
	}
	applied, err := client.Apply(ctx, item.id.Name, body, metav1.ApplyOptions{FieldManager: item.manager, Force: item.force})
	if err != nil {
		return r.explain(ctx, item, err)
	}
	if action == ActionConfigured && applied.GetResourceVersion() == rv {
		action = ActionUnchanged
	}
	item.change.UID, item.change.Live = applied.GetUID(), applied
	item.finish(action, nil)
	return nil
}

// isOurs tells the field managers whose fields are those of an item: all of the AppliedWork, or its own only.
func (r *applyRun) isOurs(item *applyItem) func(manager string) bool {
	return func(manager string) bool {
		return manager == item.manager || !item.partial && isManagerOf(manager, r.work.UID)
	}
}

// explain returns errMoved when the object is another than was read, and a typed error where there is one.
func (r *applyRun) explain(ctx context.Context, item *applyItem, err error) error {
	var status apierrors.APIStatus
	switch {
	case IsTypeNotServed(err):
		r.kinds.forget(ctx, item.mapping.resource.Group)
		return &TypeNotServedError{Kind: item.change.Key.GroupKind(), Err: err}
	case apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) && errors.As(err, &status):
		conflict := &OwnershipConflictError{Key: item.change.Key, Err: err}
		for _, cause := range status.Status().Details.Causes {
			conflict.Fields = append(conflict.Fields, cause.Field+": "+cause.Message)
		}
		item.finish(ActionFailed, conflict)
		return nil
	case apierrors.IsConflict(err):
		return errMoved
	case apierrors.IsNotFound(err) && item.live != nil:
		return errMoved
	}
	return err
}
