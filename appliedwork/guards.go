// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// guard returns the reason why an object of ours must not be deleted, or not yet.
func (r *pruneRun) guard(ctx context.Context, item *pruneItem) (Action, error) {
	key := item.change.Key
	if r.unknown > 0 {
		return ActionBlocked, &PruneBlockedError{Key: key, Reason: BlockReasonManifestUnknown,
			Detail: fmt.Sprintf("%d manifests cannot be decoded or identified, and may describe it: repair or remove them",
				r.unknown)}
	}
	switch {
	case r.isProtected(key):
		return ActionBlocked, &PruneBlockedError{Key: key, Reason: BlockReasonProtected,
			Detail: "it is in Options.Protected: set PolicyOrphan for it, which removes our owner reference"}
	case key.Group == "" && key.Kind == "Namespace":
		return r.guardNamespace(ctx, key)
	case key.GroupKind() == crdKind:
		return r.guardCRD(ctx, key, item.live)
	}
	return "", nil
}

func (r *pruneRun) guardNamespace(ctx context.Context, key Key) (Action, error) {
	inUse := func(format string, args ...any) (Action, error) {
		return ActionBlocked, &PruneBlockedError{
			Key: key, Reason: BlockReasonNamespaceInUse, Detail: fmt.Sprintf(format, args...),
		}
	}
	if used, ok := r.used[key.Name]; ok {
		return inUse("it contains %s, which is desired: keep the namespace in the work", used)
	}
	for _, owner := range r.claims.namespaces[key.Name] {
		if owner.UID != r.work.UID && !owner.Terminating {
			return inUse("it contains objects of AppliedWork %s", owner.Name)
		}
	}
	for _, other := range r.items {
		if other.left && other.change.Key.Namespace == key.Name {
			return inUse("it contains %s, which stays: set PolicyOrphan for the namespace too", other.change.Key)
		}
	}
	left, err := r.leftIn(ctx, key.Name)
	if err != nil {
		return ActionFailed, err
	}
	if left != nil {
		return inUse("it contains %s, which the policy keeps: set PolicyOrphan for the namespace too", left)
	}
	if action, err := r.waitForContent(key, func(other Key) bool { return other.Namespace == key.Name }); err != nil {
		return action, err
	}
	blocked, err := r.unmanagedError(ctx, key)
	switch {
	case IsTypeNotServed(err):
		return ActionPending, fmt.Errorf("look for unmanaged objects in namespace %s: "+
			"discovery lists a kind that the API server does not serve: %w", key.Name, err)
	case err != nil:
		return ActionFailed, fmt.Errorf("look for unmanaged objects in namespace %s: %w", key.Name, err)
	case blocked != nil:
		return ActionBlocked, blocked
	}
	return "", nil
}

// leftIn returns an existing object in a namespace that Orphans or ByKey keep, even without an
// entry.
func (r *pruneRun) leftIn(ctx context.Context, namespace string) (*Key, error) {
	for rule := range r.opts.Policies.orphans {
		if rule.Namespace != namespace {
			continue
		}
		m, err := r.resolve(ctx, rule)
		if IsTypeNotServed(err) {
			continue // there is no object, as with a mistake in the rule
		}
		if err != nil {
			return nil, err
		}
		f := r.get(ctx, target{m, namespace, rule.Name})
		if f.err != nil && !IsTypeNotServed(f.err) {
			return nil, fmt.Errorf("look for objects that the policy keeps in namespace %s: %w", namespace, f.err)
		}
		if f.obj == nil {
			continue
		}
		if id := entryOf(m, f.obj).ResourceIdentifier; r.opts.Policies.of(id, isAdopted(f.obj, r.work.UID)) == PolicyOrphan {
			key := KeyOf(id)
			return &key, nil
		}
	}
	return nil, nil
}

func (r *pruneRun) guardCRD(ctx context.Context, key Key, live *unstructured.Unstructured) (Action, error) {
	kind, _ := kindOf(live)
	inUse := func(format string, of Key) (Action, error) {
		return ActionBlocked, &PruneBlockedError{Key: key, Reason: BlockReasonCRDInUse, Detail: fmt.Sprintf(format, of)}
	}
	if used, ok := r.usedKinds[kind]; ok {
		return inUse("%s is desired: keep the CRD in the work", used)
	}
	m, err := r.kinds.Resolve(ctx, kind, "")
	if IsTypeNotServed(err) {
		reason := "it serves no version"
		if len(servedVersions(live)) > 0 {
			r.kinds.Forget(kind.Group)
			reason = "discovery does not list its served versions"
		}
		return ActionPending, fmt.Errorf("look for objects of others of %s: %s", key, reason)
	}
	if err != nil {
		return ActionFailed, err
	}
	options := metav1.ListOptions{Limit: blindPage}
	for {
		page, err := r.cluster.opts.Client.Resource(m.Resource).List(ctx, options)
		if IsTypeNotServed(err) {
			r.kinds.Forget(kind.Group)
			return ActionPending, fmt.Errorf("look for objects of others of %s: "+
				"discovery lists a kind that the API server does not serve: %w", key, err)
		}
		if err != nil {
			return ActionFailed, fmt.Errorf("look for objects of others of %s: %w", key, err)
		}
		for i := range page.Items {
			of, stays, err := r.outlives(ctx, m, &page.Items[i])
			if err != nil {
				return ActionFailed, err
			}
			if stays {
				return inUse("%s has other owners or no owner, and would be deleted with the CRD", of)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	return r.waitForContent(key, func(other Key) bool { return other.GroupKind() == kind })
}

// outlives returns the key of an object, and whether a prune of it alone would keep it.
func (r *pruneRun) outlives(
	ctx context.Context, m discovery.Mapping, live *unstructured.Unstructured,
) (key Key, outlives bool, err error) {
	entry := entryOf(m, live)
	key = KeyOf(entry.ResourceIdentifier)
	owners, err := r.claims.owners(ctx, r.work.UID, key, live)
	if err != nil {
		return key, false, err
	}
	policy := r.opts.Policies.of(entry.ResourceIdentifier, isAdopted(live, r.work.UID))
	if isKeptFrom(live, r.work.UID) {
		policy = PolicyOrphan
	}
	decision := DecideDeletion(live, entry, owners, policy)
	return key, decision != Delete && decision != Wait, nil
}

// waitForContent delays the deletion of a Namespace or CRD until its objects in this prune are
// gone.
func (r *pruneRun) waitForContent(key Key, contains func(Key) bool) (Action, error) {
	if r.mode == modePlan {
		return "", nil
	}
	for _, other := range r.items {
		if contains(other.change.Key) && other.change.Key.GroupKind() != crdKind && !other.isSettled() {
			return ActionPending, fmt.Errorf("%s is deleted after %s", key, other.change.Key)
		}
	}
	return "", nil
}

// enoughTimes is the number of answers of discovery that prove that a type is not served.
const enoughTimes = 3

// unreadable handles an entry with an object that cannot be read. It is removed when its type has
// not been served for UnservedGrace and its CRD does not exist.
func (r *pruneRun) unreadable(ctx context.Context, item *pruneItem, err error) {
	key := item.change.Key
	if !IsTypeNotServed(err) {
		item.finish(ActionFailed, fmt.Errorf("prune %s: %w", key, err))
		return
	}
	since, long := r.absent(key.GroupKind())
	notServed := &TypeNotServedError{Kind: key.GroupKind(), Since: since, Err: err}
	if !long {
		item.finish(ActionPending, notServed)
		return
	}
	switch exists, err := r.crdExists(ctx, item.entry.ResourceIdentifier); {
	case err != nil:
		item.finish(ActionFailed, fmt.Errorf("prune %s: %w", key, err))
	case exists:
		item.finish(ActionPending, notServed)
	default:
		item.finish(ActionDeleted, nil)
	}
}

// absent records that a type is not served. It returns since when, and whether that is long enough.
func (p *Pruner) absent(gk schema.GroupKind) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, a := p.cluster.opts.Clock.Now(), p.unserved[gk]
	if a == nil {
		a = &absence{since: now}
		p.unserved[gk] = a
	}
	if a.times == 0 || now.Sub(a.last) >= discovery.MaxAge {
		a.times, a.last = a.times+1, now
	}
	return a.since, now.Sub(a.since) >= p.cluster.opts.UnservedGrace && a.times >= enoughTimes
}

func (p *Pruner) present(gk schema.GroupKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unserved, gk)
}

// crdExists reports whether the CRD of a resource exists, or false if reading it is forbidden.
func (r *pruneRun) crdExists(ctx context.Context, id v1alpha1.ResourceIdentifier) (bool, error) {
	if id.Resource == "" || id.Group == "" {
		return false, nil
	}
	_, err := r.cluster.opts.Client.Resource(v1alpha1.CRDResource).Get(ctx, id.Resource+"."+id.Group, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}
