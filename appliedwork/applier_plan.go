// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
	"github.com/spokewire/sdk-go/internal/fielddiff"
)

func (r *applyRun) dryRun() []string {
	if r.dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// awaits reports whether the same call creates the namespace that an object lacks.
func (r *applyRun) awaits(item *applyItem, err error) bool {
	if !r.dry || !apierrors.IsNotFound(err) || item.live != nil {
		return false
	}
	namespace := Key{Kind: namespaceKind.Kind, Name: item.id.Namespace}
	return slices.ContainsFunc(r.items, func(other *applyItem) bool {
		return other.change.Key == namespace && other.change.Action == ActionCreated
	})
}

// reduced returns the object that an apply would leave, given the result of its dry run. Apply
// would first move all our fields to the entry of the manager's last apply, which removes fields
// that the manifest lacks. A dry run of a patch lets the API server set the defaults of these
// fields.
func (r *applyRun) reduced(
	ctx context.Context, item *applyItem, applied *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	ours, reduced := r.isOurs(item), applied.DeepCopy()
	// Kept are the fields of the manager's last apply, and those of all managers that are not ours.
	kept := fieldset.Merged(applied.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == item.manager && e.Operation == metav1.ManagedFieldsOperationApply || !ours(e.Manager)
	})
	fieldset.RemoveUnkept(reduced.Object, fieldset.Of(item.live, ours), kept)
	patch, err := json.Marshal(mergePatch(content(item.live, ""), content(reduced, "")))
	if err != nil {
		return nil, err
	}
	return r.clientOf(item).Patch(ctx, item.id.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: item.manager, DryRun: r.dryRun()})
}

// mergePatch returns the JSON merge patch from one object to another.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, old := range from {
		now, ok := to[name]
		below, isObject := old.(map[string]any)
		object, still := now.(map[string]any)
		switch {
		case !ok:
			patch[name] = nil
		case isObject && still:
			if sub := mergePatch(below, object); len(sub) > 0 {
				patch[name] = sub
			}
		case !equality.Semantic.DeepEqual(old, now):
			patch[name] = now
		}
	}
	for name, now := range to {
		if _, ok := from[name]; !ok {
			patch[name] = now
		}
	}
	return patch
}

// compare records the fields of an object that a dry run would change.
func (r *applyRun) compare(item *applyItem) {
	before, after := item.live, item.change.Live
	if before == nil || after == nil || before == after {
		return
	}
	fields := fielddiff.Between(content(before, r.work.UID), content(after, r.work.UID))
	if item.change.Key.GroupKind() == secretKind {
		fielddiff.Redact(fields)
	}
	for _, f := range fields {
		item.change.Fields = append(item.change.Fields, FieldChange(f))
	}
	if len(fields) == 0 && item.change.Action == ActionConfigured {
		item.change.Action = ActionUnchanged
	}
}

// content returns an object without the fields that change with each write.
func content(obj *unstructured.Unstructured, uid types.UID) map[string]any {
	obj = obj.DeepCopy()
	for _, field := range serverFields {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", hashAnnotation(uid))
	if len(obj.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	return obj.Object
}
