// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/kubefields"
)

// causeNamespaceTerminating is corev1.NamespaceTerminatingCause.
const causeNamespaceTerminating metav1.CauseType = "NamespaceTerminating"

// applyOne writes one object. It starts again after a concurrent change.
func (r *applyRun) applyOne(ctx context.Context, item *applyItem) {
	for attempt := 0; ; attempt++ {
		err := r.step(ctx, item)
		if item.isFinished() {
			if r.dry {
				r.compare(item)
			}
			return
		}
		failed := fmt.Errorf("apply %s: %w", item.change.Key, err)
		moved := errors.Is(err, errMoved)
		if moved && attempt >= attempts || !moved && !r.mayBeRepeat(item, err) {
			item.fail(failed)
			return
		}
		if moved {
			if err := pause(ctx, attempt); err != nil {
				item.fail(err)
				return
			}
		}
		f := r.get(ctx, item.target())
		switch {
		case moved:
		case f.err != nil:
			item.finish(ActionFailed, errors.Join(failed, f.err)) // it is unknown whether the object was written
			return
		case !isWritten(f.obj, r.work.UID):
			item.fail(failed)
			return
		}
		if f.err != nil {
			// The write failed because the object had changed, and its new state is unknown. So
			// this is no refusal.
			item.finish(ActionFailed, fmt.Errorf("read %s: %w", item.change.Key, r.precisely(ctx, item, f.err)))
			return
		}
		r.see(item, f.obj)
	}
}

// mayBeRepeat reports whether an error may be the answer to a request that client-go has repeated,
// for example because a proxy lost the first answer. The first request may be the reason for the
// error.
func (r *applyRun) mayBeRepeat(item *applyItem, err error) bool {
	var status apierrors.APIStatus
	return !r.dry && !item.ours && isRefusal(err) && errors.As(err, &status) && !IsTypeNotServed(err)
}

// inspect determines whether an object is ours, adopted or moved, or may not be applied.
func (r *applyRun) inspect(item *applyItem, entry v1alpha1.AppliedResourceMeta) {
	live, key := item.live, item.change.Key
	same := live != nil && entry.UID != "" && entry.UID == live.GetUID()
	// An object with owners may belong to others by now, even if the entry has its UID.
	unowned := live != nil && len(live.GetOwnerReferences()) == 0
	item.ours = same && unowned || isWritten(live, r.work.UID)
	switch {
	case item.options.ResourceVersion != "" && (live == nil || live.GetResourceVersion() != item.options.ResourceVersion):
		item.fail(fmt.Errorf("apply %s: %w", key, ErrChanged))
	case live == nil:
		item.adopted = false
	case item.ours:
		item.adopted = same && entry.Adopted || isAdopted(live, r.work.UID)
	case live.GetDeletionTimestamp() == nil:
		// An object of another work has moved, even if that work has released it since.
		item.moved = item.moved || wasOfWork(live)
		item.adopted = !item.moved
		if err := mayAdopt(key, live, r.opts.Adoption); err != nil {
			item.fail(err)
		}
	}
}

// step makes the requests that the object as it was read needs, or returns errMoved.
func (r *applyRun) step(ctx context.Context, item *applyItem) error {
	live := item.live
	if r.inspect(item, r.inventory.entry(item.change.Key)); item.isFinished() {
		return nil
	}
	manifest, err := r.manifest(item)
	if err != nil {
		return err
	}
	if live == nil {
		if !r.mayWrite(ctx, item) {
			return nil
		}
		return r.create(ctx, item, manifest)
	}
	item.change.UID = live.GetUID()
	if live.GetDeletionTimestamp() != nil {
		item.finish(ActionPending, fmt.Errorf("%s is being deleted: it is applied after that", item.change.Key))
		return nil
	}
	action := ActionConfigured
	if !item.ours {
		action = ActionAdopted
	}
	if item.options.Strategy == StrategyCreateOnly {
		return r.own(ctx, item, action)
	}
	if item.ours && !r.hasSurplus(item, live) && isUnchanged(live, manifest, r.work.UID, item.manager) &&
		!r.migrates(live) {
		item.change.Live = live
		item.finish(ActionUnchanged, nil)
		return nil
	}
	if !r.mayWrite(ctx, item) {
		return nil
	}
	err = r.patch(ctx, item, manifest, action)
	if r.mayRecreate(item) && kubefields.Refused(err) != nil {
		if !r.mayWrite(ctx, item, "delete", "create") {
			return nil
		}
		return r.remove(ctx, item, manifest)
	}
	return err
}

// own sets only the owner reference and our annotations of an object.
func (r *applyRun) own(ctx context.Context, item *applyItem, action Action) error {
	live := item.live
	owned := live.DeepCopy()
	kept := r.isLeft(item)
	changed := len(item.gone) > 0 || item.adopted != isAdopted(live, r.work.UID) || kept != isMarkedKept(live, r.work.UID)
	if r.isUnowned(item) {
		changed = r.disown(item, owned) || changed
	} else {
		changed = SetOwnerReference(owned, r.work) || changed
	}
	if !changed {
		item.change.Live = live
		item.finish(ActionUnchanged, nil)
		return nil
	}
	if !r.mayWrite(ctx, item) {
		return nil
	}
	mark := func(is bool) any {
		if is {
			return "true"
		}
		return nil
	}
	annotations := removedTraces(item.gone...)
	annotations[adoptedAnnotation(r.work.UID)], annotations[keptAnnotation(r.work.UID)] = mark(item.adopted), mark(kept)
	metadata := map[string]any{"ownerReferences": owned.GetOwnerReferences(), "annotations": annotations}
	if len(item.gone) > 0 {
		metadata["managedFields"] = fieldset.OrNone(live.GetManagedFields())
	}
	written, err := patchMetadata(ctx, r.clientOf(item), live, metadata, item.manager, r.dryRun()...)
	if err != nil {
		return r.explain(ctx, item, err)
	}
	item.change.Live = written
	item.finish(action, nil)
	return nil
}

func (r *applyRun) mayRecreate(item *applyItem) bool {
	if !item.options.Recreate || !IsOwnedBy(item.live, r.work.UID) || item.adopted || isContainer(item.change.Key) {
		return false
	}
	if r.stays(item) || hasTracesOfOthers(item.live, r.work.UID) {
		return false
	}
	return !slices.ContainsFunc(item.live.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		return o.UID != r.work.UID
	})
}

// remove deletes the object that was read if it can be created again, and returns errMoved.
func (r *applyRun) remove(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured) error {
	client := r.clientOf(item)
	trial := metav1.CreateOptions{
		FieldManager: item.manager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
	}
	if _, err := client.Create(ctx, manifest, trial); !apierrors.IsAlreadyExists(err) {
		if err == nil {
			return errMoved // it is gone
		}
		return fmt.Errorf("check that it can be created again after its deletion: %w", err)
	}
	uid, rv := item.live.GetUID(), item.live.GetResourceVersion()
	err := client.Delete(ctx, item.id.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &rv},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
		DryRun:            r.dryRun(),
	})
	if err == nil && r.dry {
		item.finish(ActionCreated, nil)
		return nil
	}
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) && !IsTypeNotServed(err) {
		return errMoved
	}
	return fmt.Errorf("delete it to create it again: %w", err)
}

// migrates reports whether fields of MigrateManagers must become ours.
func (r *applyRun) migrates(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "" && slices.Contains(r.opts.MigrateManagers, e.Manager)
	})
}

func (r *applyRun) manifest(item *applyItem) (*unstructured.Unstructured, error) {
	f := form{
		adopted: item.adopted, unowned: r.isUnowned(item), kept: r.isLeft(item),
		ignored: item.ignored, live: item.live, ours: r.isOurs(item),
	}
	f.unhashed = !hasRoom(item.source, item.live, r.work.UID)
	if id := ApplySetID(r.work.Name); r.tracker.opts.ApplySet && !isOtherSet(item.live, id) {
		f.set = id
	}
	return manifestOf(item.source, item.id.Namespace, r.work, f)
}

func mayAdopt(key Key, live *unstructured.Unstructured, adoption Adoption) error {
	owners := live.GetOwnerReferences()
	if adoption == AdoptionAlways || adoption == AdoptionIfUnowned && len(owners) == 0 {
		return nil
	}
	return &AdoptionError{Key: key, UID: live.GetUID(), Owners: owners, Adoption: adoption}
}

// create creates the object. An apply would silently change an object that others have created
// meanwhile. It does not send a manifest that every later apply would refuse.
func (r *applyRun) create(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured) error {
	if uid := r.inventory.entry(item.change.Key).UID; uid != "" && !r.dry {
		// The object existed when the intent was recorded. The new object has another UID.
		if err := r.tracker.recordNewIntent(ctx, r.work, item.id); err != nil {
			return err
		}
		item.isNew = true
	}
	client := r.clientOf(item)
	if fieldset.MayRepeatKeys(manifest.Object) {
		options := metav1.ApplyOptions{FieldManager: item.manager, DryRun: []string{metav1.DryRunAll}}
		_, err := client.Apply(ctx, item.id.Name, manifest, options)
		refused := apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsInternalError(err)
		if refused && !isDryRunRefused(err) {
			item.refuse(fmt.Errorf("apply %s: %w", item.change.Key, err))
			return nil
		}
	}
	created, err := client.Create(ctx, manifest, metav1.CreateOptions{
		FieldManager: item.manager, FieldValidation: metav1.FieldValidationStrict, // as an apply has it
		DryRun: r.dryRun(),
	})
	switch {
	case err == nil:
		item.change.UID, item.change.Live = created.GetUID(), created
		item.finish(ActionCreated, nil)
		return nil
	case apierrors.IsAlreadyExists(err):
		return errMoved
	case r.awaits(item, err):
		item.finish(ActionPending, fmt.Errorf("%s cannot be checked before its namespace is created", item.change.Key))
		return nil
	case apierrors.HasStatusCause(err, causeNamespaceTerminating):
		item.finish(ActionPending, err)
		return nil
	}
	return r.explain(ctx, item, err)
}

// patch applies the manifest to the object that was read, by its UID.
func (r *applyRun) patch(
	ctx context.Context, item *applyItem, manifest *unstructured.Unstructured, action Action,
) error {
	client, live := r.clientOf(item), item.live
	rv := live.GetResourceVersion()
	managed := fieldset.AsApplied(live.GetManagedFields(), item.manager, r.isOurs(item))
	if managed == nil && len(item.gone) > 0 {
		managed = fieldset.OrNone(live.GetManagedFields())
	}
	if managed != nil && !r.dry {
		var err error
		if rv, err = r.takeFields(ctx, item, manifest, action, managed); err != nil || item.isFinished() {
			return err
		}
	}
	body := manifest.DeepCopy()
	body.SetUID(live.GetUID())
	if action == ActionAdopted || item.options.ResourceVersion != "" || item.ignored != nil {
		body.SetResourceVersion(rv) // the decision depends on the object as it was read
	}
	options := metav1.ApplyOptions{FieldManager: item.manager, Force: item.options.Force, DryRun: r.dryRun()}
	applied, err := client.Apply(ctx, item.id.Name, body, options)
	conflict := conflictOf(item.change.Key, err)
	if conflict != nil && managed != nil && r.dry {
		options.Force = true // over our other managers: Apply would move their fields first
		taken := func(manager string) bool { return r.isOurs(item)(manager) || isManagerOfAny(manager, item.gone) }
		if conflict = conflict.withOthers(taken); conflict == nil || conflict.without(body, live, r.isOurs(item)) {
			applied, err = client.Apply(ctx, item.id.Name, body, options)
		}
	}
	switch {
	case err == nil:
	case conflict.isWithNobody():
		body.SetResourceVersion(rv) // so no other manager gets the fields meanwhile
		options.Force, conflict = true, nil
		applied, err = client.Apply(ctx, item.id.Name, body, options)
	case conflict != nil && action == ActionConfigured && conflict.without(body, live, r.isOurs(item)):
		applied, err = client.Apply(ctx, item.id.Name, body, options)
	}
	if err == nil && managed != nil && r.dry {
		if applied, err = r.reduced(ctx, item, applied); err == nil {
			applied = withoutTraces(applied, item.gone)
		}
	}
	if err == nil && r.hasSurplus(item, applied) {
		applied, err = r.removeSurplus(ctx, item, applied)
	}
	if err != nil {
		return r.explain(ctx, item, err)
	}
	if action == ActionConfigured && applied.GetResourceVersion() == rv && !r.dry { // a dry run never changes it
		action = ActionUnchanged
	}
	item.change.UID, item.change.Live = applied.GetUID(), applied
	if conflict != nil {
		item.finish(ActionFailed, conflict)
		item.written = writeDone
		return nil
	}
	item.finish(action, nil)
	return nil
}

// takeFields makes managed the managed fields of the object that was read, and returns its new
// resourceVersion. Fields that we have created, or applied under another name, then count as
// applied by this manager.
func (r *applyRun) takeFields(
	ctx context.Context, item *applyItem, manifest *unstructured.Unstructured, action Action,
	managed []metav1.ManagedFieldsEntry,
) (rv string, err error) {
	if action == ActionAdopted {
		if err := r.mayTake(ctx, item, manifest); err != nil || item.isFinished() {
			return "", err
		}
	}
	annotations := removedTraces(item.gone...)
	if item.adopted { // in the same request, because the field manager makes the object ours
		annotations[adoptedAnnotation(r.work.UID)] = "true"
	}
	metadata := map[string]any{"managedFields": managed, "annotations": annotations}
	upgraded, err := patchMetadata(ctx, r.clientOf(item), item.live, metadata, item.manager)
	if err != nil {
		return "", r.explain(ctx, item, err)
	}
	return upgraded.GetResourceVersion(), nil
}

// disown removes the owner references that an unowned object must not have, and reports whether
// there were any: ours, and those of all AppliedWorks if the policy keeps the object.
func (r *applyRun) disown(item *applyItem, obj *unstructured.Unstructured) bool {
	changed := false
	for _, owner := range obj.GetOwnerReferences() {
		if owner.UID == r.work.UID || r.isLeft(item) && isAppliedWork(owner) {
			changed = RemoveOwnerReference(obj, owner.UID) || changed
		}
	}
	return changed
}

func (r *applyRun) hasSurplus(item *applyItem, obj *unstructured.Unstructured) bool {
	return r.isUnowned(item) && r.disown(item, obj.DeepCopy())
}

// removeSurplus removes surplus owner references, which other field managers have set.
func (r *applyRun) removeSurplus(
	ctx context.Context, item *applyItem, applied *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	rest := applied.DeepCopy()
	if r.disown(item, rest); r.dry {
		return rest, nil
	}
	metadata := map[string]any{"ownerReferences": rest.GetOwnerReferences()}
	return patchMetadata(ctx, r.clientOf(item), applied, metadata, item.manager)
}

// mayTake fails an item if the apply after takeFields would be refused.
func (r *applyRun) mayTake(ctx context.Context, item *applyItem, manifest *unstructured.Unstructured) error {
	trial, tried := *r, *item
	trial.dry = true
	err := trial.patch(ctx, &tried, manifest, ActionAdopted)
	if tried.isFinished() && tried.change.Action == ActionFailed {
		item.fail(tried.change.Err)
	}
	return err
}
