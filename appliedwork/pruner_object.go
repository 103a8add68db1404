// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

type pruneMode int

const (
	modePrune    pruneMode = iota // delete the objects that the work has dropped
	modePlan                      // find out what modePrune would do, and change nothing
	modeTeardown                  // delete all objects, because the AppliedWork is deleted next
	modeRelease                   // keep all objects, and delete the AppliedWork next
)

// isLast reports whether the AppliedWork is deleted after the run, and late objects with it.
func (m pruneMode) isLast() bool { return m == modeTeardown || m == modeRelease }

// pruneRun is one call of Prune, or one pass of Teardown or Release.
type pruneRun struct {
	*Pruner
	work      *v1alpha1.AppliedWork
	opts      PruneOptions
	mode      pruneMode
	inventory *inventory
	claims    *claims
	unknown   int            // number of manifests that cannot be identified
	used      map[string]Key // namespaces of desired objects, each with one object
	usedKinds map[schema.GroupKind]Key
	keptUIDs  map[types.UID]bool // of desired objects, which may be served as another kind too
	items     []*pruneItem

	contentMu sync.Mutex // locked during discovery: all Namespaces of a wave need the same answer
	content   *contentKinds
}

// pruneItem is one entry that is not desired.
type pruneItem struct {
	entry   v1alpha1.AppliedResourceMeta
	mapping discovery.Mapping
	live    *unstructured.Unstructured
	change  Change
	left    bool // it stays: by a policy, or because our reference was removed
}

func (i *pruneItem) finish(action Action, err error) { i.change.Action, i.change.Err = action, err }

func (i *pruneItem) isFinished() bool { return i.change.Action != "" }

// isSettled reports whether the entry of the object is not needed any more.
func (i *pruneItem) isSettled() bool {
	action := i.change.Action
	return action == ActionDeleted || action == ActionReleased || action == ActionRetained
}

// run handles entries that are not desired, in the reverse order of apply.
func (r *pruneRun) run(ctx context.Context, stale []v1alpha1.AppliedResourceMeta) error {
	if r.mode != modePlan {
		r.intents.keepOnly(r.work.UID, r.inventory.entries())
	}
	if len(stale) == 0 {
		return nil
	}
	keys := map[Key]bool{}
	for _, e := range stale {
		key := r.keyOf(ctx, e.ResourceIdentifier)
		keys[key] = true
		r.items = append(r.items, &pruneItem{entry: e, change: Change{Key: key, UID: e.UID}})
	}
	var err error
	if r.claims, err = r.tracker.claims(ctx, r.work.UID, keys); err != nil {
		return err
	}
	waves := byRank(len(r.items), func(i int) schema.GroupKind { return r.items[i].change.Key.GroupKind() })
	for rank := ranks - 1; rank >= 0; rank-- {
		wave := r.read(ctx, waves[rank])
		parallel(ctx, len(wave), r.opts.Concurrency, func(n int) { r.one(ctx, wave[len(wave)-1-n]) })
	}
	return nil
}

// read reads the objects of a wave. It finishes items that cannot be read, and returns the others.
func (r *pruneRun) read(ctx context.Context, wave []int) []*pruneItem {
	var items []*pruneItem
	var targets []target
	for _, i := range wave {
		item := r.items[i]
		var err error
		if item.mapping, err = r.resolve(ctx, item.entry.ResourceIdentifier); err != nil {
			r.unreadable(ctx, item, err)
			continue
		}
		if key := servedKey(item.mapping, item.entry.ResourceIdentifier); key != item.change.Key {
			item.finish(ActionPending, fmt.Errorf("look up the other owners of %s: its kind was not served before", key))
			continue
		}
		r.present(item.change.Key.GroupKind())
		items = append(items, item)
		targets = append(targets, target{item.mapping, item.entry.Namespace, item.entry.Name})
	}
	var readable []*pruneItem
	for i, f := range r.cluster.read(ctx, targets, r.opts.Concurrency) {
		if f.err != nil {
			r.unreadable(ctx, items[i], f.err)
			continue
		}
		items[i].live = f.obj
		readable = append(readable, items[i])
	}
	return readable
}

// one handles one object. It starts again after a concurrent change.
func (r *pruneRun) one(ctx context.Context, item *pruneItem) {
	for attempt := 0; ; attempt++ {
		err := r.step(ctx, item)
		if item.isFinished() {
			return
		}
		if IsTypeNotServed(err) {
			r.kinds.Forget(item.entry.Group)
			r.unreadable(ctx, item, &TypeNotServedError{Kind: item.change.Key.GroupKind(), Err: err})
			return
		}
		if !errors.Is(err, errMoved) || attempt == attempts {
			item.finish(ActionFailed, fmt.Errorf("prune %s: %w", item.change.Key, err))
			return
		}
		if err := pause(ctx, attempt); err != nil {
			item.finish(ActionPending, err)
			return
		}
		f := r.get(ctx, target{item.mapping, item.entry.Namespace, item.entry.Name})
		if f.err != nil {
			r.unreadable(ctx, item, f.err)
			return
		}
		item.live = f.obj
	}
}

// step decides about the object as it was read. It returns errMoved if the object has changed
// since.
func (r *pruneRun) step(ctx context.Context, item *pruneItem) error {
	live := item.live
	if live != nil {
		item.change.UID = live.GetUID()
		r.intents.forget(r.work.UID, item.change.Key)
		if r.keptUIDs[live.GetUID()] {
			item.finish(ActionRetained, nil) // desired, by another name of its kind
			return nil
		}
	}
	owners, err := r.claims.owners(ctx, r.work.UID, item.change.Key, live)
	if err != nil {
		return err
	}
	id := item.entry.ResourceIdentifier
	if item.mapping.Kind != "" { // an entry may lack either, and rules may use either
		id.Kind, id.Resource = item.mapping.Kind, item.mapping.Resource.Resource
	}
	policy := r.opts.Policies.of(id, item.entry.Adopted || live != nil && isAdopted(live, r.work.UID))
	if r.mode.isLast() && r.isProtected(item.change.Key) || live != nil && isKeptFrom(live, r.work.UID) ||
		isInventoryOf(r.work, item.change.Key, nil) {
		policy = PolicyOrphan // with a reference, Kubernetes' garbage collector would try to delete it
	}
	switch DecideDeletion(live, item.entry, owners, policy) {
	case Gone:
		r.gone(item)
	case Retain:
		item.finish(ActionRetained, nil)
	case Wait:
		item.finish(ActionPending, fmt.Errorf("%s is being deleted%s", item.change.Key, heldBy(live)))
	case Release:
		item.left = policy == PolicyOrphan || !IsOwnedBy(live, r.work.UID)
		isKept := isMarkedKept(live, r.work.UID) || r.mode == modeTeardown && r.opts.Policies.For(id) == PolicyOrphan
		pinned := owners.shared(live) && isKept // the policy keeps it, and another AppliedWork has it
		var heir *Owner
		if !item.left {
			heir = owners.heir(live)
		}
		return r.release(ctx, item, heir, pinned)
	case Delete:
		return r.delete(ctx, item)
	}
	return nil
}

func heldBy(live *unstructured.Unstructured) string {
	if f := live.GetFinalizers(); len(f) > 0 {
		return ", and held by the finalizers " + strings.Join(f, ", ")
	}
	return ""
}

// gone finishes an item without an object. If the object was never confirmed, a request to create
// it may still be in progress.
func (r *pruneRun) gone(item *pruneItem) {
	if item.entry.UID == "" && !r.mode.isLast() && !r.intents.settled(r.work.UID, item.change.Key, r.mode == modePlan) {
		item.finish(ActionPending, fmt.Errorf("%s may still be created by an earlier request", item.change.Key))
		return
	}
	item.finish(ActionDeleted, nil)
}

// release removes our owner reference and our traces from the object that was read. An heir becomes
// the owner.
func (r *pruneRun) release(ctx context.Context, item *pruneItem, heir *Owner, pinned bool) error {
	live := item.live
	if !IsOwnedBy(live, r.work.UID) && !hasTraces(live, r.work.UID) {
		item.finish(ActionRetained, nil) // an earlier pass has released it
		return nil
	}
	if r.mode == modePlan {
		item.finish(ActionReleased, nil)
		return nil
	}
	if heir == nil {
		err := r.detach(ctx, item.mapping, live, r.work, nil, pinned)
		if err == nil {
			item.finish(ActionReleased, nil)
		}
		return err
	}
	return r.handOver(ctx, item, heir, pinned)
}

// handOver makes an AppliedWork that is about to apply an object its owner. It records the object
// in the heir's inventory before and after that, because the heir may drop its intent meanwhile.
func (r *pruneRun) handOver(ctx context.Context, item *pruneItem, heir *Owner, pinned bool) error {
	work := &v1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: heir.Name, UID: heir.UID}}
	entry := v1alpha1.AppliedResourceMeta{ResourceIdentifier: item.entry.ResourceIdentifier, UID: item.live.GetUID()}
	err := r.tracker.RecordApplied(ctx, work, entry)
	if err == nil {
		err = r.detach(ctx, item.mapping, item.live, r.work, work, pinned)
	}
	if err == nil {
		err = r.tracker.RecordApplied(ctx, work, entry)
	}
	switch {
	case errors.Is(err, ErrTerminating):
		item.finish(ActionPending, fmt.Errorf("release %s: AppliedWork %s, which was about to apply it, is gone",
			item.change.Key, heir.Name))
		return nil
	case err == nil:
		item.finish(ActionReleased, nil)
	}
	return err
}

// detach removes the owner reference to an AppliedWork and its traces from an object. A pinned
// object gets an annotation that keeps it regardless of other AppliedWorks.
func (c *cluster) detach(
	ctx context.Context, m discovery.Mapping, live *unstructured.Unstructured, work,
	heir *v1alpha1.AppliedWork, pinned bool,
) error {
	uid := work.UID
	rest := live.DeepCopy()
	RemoveOwnerReference(rest, uid)
	if heir != nil {
		SetOwnerReference(rest, heir)
	}
	annotations := removedTraces(uid)
	if pinned {
		annotations[v1alpha1.AnnotationPrune] = "disabled"
	}
	metadata := map[string]any{
		"ownerReferences": rest.GetOwnerReferences(), "annotations": annotations,
	}
	if live.GetLabels()[labelPartOf] == ApplySetID(work.Name) {
		metadata["labels"] = map[string]any{labelPartOf: nil}
	}
	if managed := live.GetManagedFields(); len(managed) > 0 {
		metadata["managedFields"] = withoutUs(managed, uid)
	}
	_, err := patchMetadata(ctx, c.resource(m, live.GetNamespace()), live, metadata, inventoryManager)
	return err
}

// delete deletes the object that was read, and no other, unless a guard prevents it.
func (r *pruneRun) delete(ctx context.Context, item *pruneItem) error {
	if action, err := r.guard(ctx, item); err != nil {
		item.finish(action, err)
		return nil
	}
	if r.mode == modePlan {
		item.finish(ActionDeleted, nil)
		return nil
	}
	live, uid, rv := item.live, item.live.GetUID(), item.live.GetResourceVersion()
	client := r.resource(item.mapping, item.entry.Namespace)
	err := client.Delete(ctx, item.entry.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}, PropagationPolicy: &r.opts.Propagation,
	})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && !IsTypeNotServed(err):
		return errMoved
	case err != nil:
		return err
	case goesAtOnce(item.change.Key, live) && r.opts.Propagation == metav1.DeletePropagationBackground:
		item.finish(ActionDeleted, nil)
		return nil
	}
	return errMoved // read it again
}

// goesAtOnce reports whether a deleted object is gone when the server answers.
func goesAtOnce(key Key, live *unstructured.Unstructured) bool {
	core := key.Group == "" && (key.Kind == "Namespace" || key.Kind == "Pod")
	return len(live.GetFinalizers()) == 0 && !core && key.GroupKind() != crdKind
}
