// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// An AppliedWork that is deleted without a Teardown leaves its annotations and its field manager on
// the objects that its policies keep. An AppliedWork that adopts such an object removes them, because
// its mark would stay in effect for ever, and its field manager would cause conflicts.

// writers returns the AppliedWorks in the annotations of an object, except self and its owners.
func writers(obj metav1.Object, self types.UID) (uids []types.UID) {
	for name := range obj.GetAnnotations() {
		for _, prefix := range workPrefixes {
			of, ok := strings.CutPrefix(name, prefix)
			if uid := types.UID(of); ok && uid != self && !IsOwnedBy(obj, uid) && !slices.Contains(uids, uid) {
				uids = append(uids, uid)
			}
		}
	}
	return uids
}

// findGone finds the deleted AppliedWorks with traces on objects to adopt. It lists the
// AppliedWorks after the objects were read, so one that is not in the list was deleted.
func (r *applyRun) findGone(ctx context.Context) {
	seen := map[types.UID]bool{}
	var items []*applyItem
	for _, item := range r.items {
		if item.isFinished() || item.live == nil || item.ours {
			continue
		}
		if uids := writers(item.live, r.work.UID); len(uids) > 0 {
			items = append(items, item)
			for _, uid := range uids {
				seen[uid] = true
			}
		}
	}
	if len(items) == 0 {
		return
	}
	living, err := r.tracker.uids(ctx)
	if err != nil {
		for _, item := range items {
			item.finish(ActionFailed, fmt.Errorf("look for the earlier AppliedWorks of %s: %w", item.change.Key, err))
		}
		return
	}
	r.gone = map[types.UID]bool{}
	for uid := range seen {
		r.gone[uid] = !living[uid]
	}
	for _, item := range items {
		r.see(item, item.live)
	}
}

func (t *Tracker) uids(ctx context.Context) (map[types.UID]bool, error) {
	uids := map[types.UID]bool{}
	if t.opts.InventoryMetadata == nil {
		err := t.eachWork(ctx, metav1.ListOptions{}, func(work *v1alpha1.AppliedWork) { uids[work.UID] = true })
		return uids, err
	}
	works, _, err := t.listWorks(ctx)
	for _, w := range works {
		uids[w.uid] = true
	}
	return uids, err
}

// see sets the live object of an item, without traces of deleted AppliedWorks if it is new to us.
func (r *applyRun) see(item *applyItem, live *unstructured.Unstructured) {
	item.live, item.gone = live, nil
	if live == nil || isWritten(live, r.work.UID) {
		return
	}
	for _, uid := range writers(live, r.work.UID) {
		if r.gone[uid] {
			item.gone = append(item.gone, uid)
		}
	}
	item.live = withoutTraces(live, item.gone)
}

func withoutTraces(obj *unstructured.Unstructured, uids []types.UID) *unstructured.Unstructured {
	if len(uids) == 0 {
		return obj
	}
	rest := obj.DeepCopy()
	for name := range removedTraces(uids...) {
		unstructured.RemoveNestedField(rest.Object, "metadata", "annotations", name)
	}
	if len(rest.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(rest.Object, "metadata", "annotations")
	}
	rest.SetManagedFields(slices.DeleteFunc(rest.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isManagerOfAny(e.Manager, uids)
	}))
	return rest
}

// removedTraces returns the annotations of a merge patch that removes the traces of AppliedWorks.
func removedTraces(uids ...types.UID) map[string]any {
	annotations := map[string]any{}
	for _, uid := range uids {
		for _, prefix := range workPrefixes {
			annotations[prefix+string(uid)] = nil
		}
	}
	return annotations
}

func isManagerOfAny(manager string, uids []types.UID) bool {
	return slices.ContainsFunc(uids, func(uid types.UID) bool { return isManagerOf(manager, uid) })
}
