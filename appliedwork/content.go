// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// maxUnmanaged is the number of unmanaged objects of a Namespace in an error.
	maxUnmanaged = 3
	// firstPage is the size of the first page of a list that usually ends at its first object.
	firstPage = 10
)

// unmanagedError returns an error with the unmanaged objects of a Namespace, or nil.
func (r *pruneRun) unmanagedError(ctx context.Context, namespace Key) (*PruneBlockedError, error) {
	if r.opts.Policies.Unmanaged == PolicyDelete {
		return nil, nil
	}
	kinds, err := r.contentKinds(ctx)
	if err != nil {
		return nil, err
	}
	if len(kinds.unread) > 0 {
		return &PruneBlockedError{Key: namespace, Reason: BlockReasonNamespaceUnreadable, Detail: fmt.Sprintf(
			"discovery of %s failed, so the namespace may contain objects of it", strings.Join(kinds.unread, ", "))}, nil
	}
	var mu sync.Mutex
	first := len(kinds.kinds) // the first kind that blocks: every pass reports the same one
	var blocked *PruneBlockedError
	var failed error
	parallel(ctx, len(kinds.kinds), r.opts.Concurrency, func(i int) {
		mu.Lock()
		skip := i > first
		mu.Unlock()
		if skip {
			return
		}
		found, err := r.unmanagedOf(ctx, kinds.kinds[i], namespace)
		mu.Lock()
		defer mu.Unlock()
		if (found != nil || err != nil) && i < first {
			first, blocked, failed = i, found, err
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return blocked, failed
}

type contentKinds struct {
	kinds  []discovery.Mapping
	unread []string // groups and versions that could not be discovered
}

// contentKinds returns the kinds of objects in a Namespace. It asks discovery once for each call.
func (r *pruneRun) contentKinds(ctx context.Context) (contentKinds, error) {
	r.contentMu.Lock()
	defer r.contentMu.Unlock()
	if r.content != nil {
		return *r.content, nil
	}
	all, unread, err := r.kinds.All(ctx)
	if err != nil {
		return contentKinds{}, err
	}
	found := contentKinds{}
	for gv := range unread {
		found.unread = append(found.unread, cmp.Or(gv, "the core group"))
	}
	for _, m := range all {
		deletable := slices.Contains(m.Verbs, "delete") || slices.Contains(m.Verbs, "deletecollection")
		if m.Namespaced && deletable && !isDisposable(m.GroupKind()) {
			found.kinds = append(found.kinds, m)
		}
	}
	slices.Sort(found.unread)
	slices.SortFunc(found.kinds, func(a, b discovery.Mapping) int {
		return strings.Compare(a.GroupKind().String(), b.GroupKind().String())
	})
	r.content = &found
	return found, nil
}

// isDisposable reports whether objects of a kind only describe other objects.
func isDisposable(gk schema.GroupKind) bool {
	switch gk.Group {
	case "", "events.k8s.io":
		return gk.Kind == "Event" || gk.Kind == "Endpoints"
	case "coordination.k8s.io":
		return gk.Kind == "Lease"
	}
	return false
}

// unmanagedOf is unmanagedError for one kind. It reads metadata up to the first unmanaged object.
func (r *pruneRun) unmanagedOf(ctx context.Context, m discovery.Mapping, namespace Key) (*PruneBlockedError, error) {
	unreadable := func(err error) (*PruneBlockedError, error) {
		return &PruneBlockedError{Key: namespace, Reason: BlockReasonNamespaceUnreadable, Detail: fmt.Sprintf(
			"list %s in the namespace: %v: allow list on them, or set Policies.Unmanaged to Delete",
			m.Resource.GroupResource(), err)}, nil
	}
	if !slices.Contains(m.Verbs, "list") {
		return unreadable(errors.New("the API server does not support list"))
	}
	var found []v1alpha1.AppliedResourceMeta
	options := metav1.ListOptions{Limit: firstPage, FieldSelector: selectorOf(m)}
	for len(found) == 0 {
		page, next, err := r.metadataPage(ctx, m, namespace.Name, options)
		switch {
		case IsTypeNotServed(err):
			// A kind that is not served any more has no objects that would be deleted with the
			// Namespace. Another version of it may be served.
			r.kinds.Forget(m.Resource.Group)
			now, unresolved := r.kinds.Resolve(ctx, m.GroupKind(), "")
			if IsTypeNotServed(unresolved) {
				return nil, nil
			}
			if unresolved == nil && now.Resource != m.Resource {
				return r.unmanagedOf(ctx, now, namespace)
			}
			return nil, cmp.Or(unresolved, err)
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return unreadable(err)
		case err != nil:
			return nil, fmt.Errorf("list %s in namespace %s: %w", m.Resource.GroupResource(), namespace.Name, err)
		}
		for _, obj := range page {
			unmanaged, err := r.isUnmanaged(ctx, m, obj)
			if err != nil {
				return nil, err
			}
			if unmanaged && len(found) < maxUnmanaged {
				found = append(found, entryOf(m, obj))
			}
		}
		if next == "" {
			break
		}
		options.Limit, options.Continue = pageSize, next
	}
	if len(found) == 0 {
		return nil, nil
	}
	names := make([]string, len(found))
	for i, e := range found {
		names[i] = KeyOf(e.ResourceIdentifier).String()
	}
	return &PruneBlockedError{Key: namespace, Reason: BlockReasonNamespaceNotEmpty, Objects: found, Detail: fmt.Sprintf(
		"no AppliedWork applied %s, and the namespace may contain more: "+
			"remove the objects, or set Policies.Unmanaged to Delete",
		strings.Join(names, ", "))}, nil
}

// selectorOf returns a field selector that excludes the token Secrets of ServiceAccounts.
func selectorOf(m discovery.Mapping) string {
	if m.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return "type!=kubernetes.io/service-account-token"
	}
	return ""
}

// isUnmanaged reports whether an object would be lost with its Namespace although no AppliedWork
// and no controller of the cluster manages it. An object with an owner in its Namespace counts only
// through that owner.
func (r *pruneRun) isUnmanaged(ctx context.Context, m discovery.Mapping, obj metav1.Object) (bool, error) {
	key := KeyOf(entryOf(m, obj).ResourceIdentifier)
	if obj.GetDeletionTimestamp() != nil || isOfEveryNamespace(key) {
		return false, nil
	}
	if policy, ok := r.opts.Policies.ByKey[key]; ok && policy == PolicyDelete {
		return false, nil
	}
	owners := obj.GetOwnerReferences()
	if len(owners) == 0 {
		return true, nil
	}
	alive := false
	for _, owner := range owners {
		if owner.UID == obj.GetUID() {
			return true, nil
		}
		is, err := r.isOtherOwner(ctx, key, owner)
		if err != nil {
			return false, fmt.Errorf("look up the owner %s %s of %s: %w", owner.Kind, owner.Name, key, err)
		}
		alive = alive || is
	}
	return alive, nil
}

// isOtherOwner reports whether an owner keeps an object when the objects of the AppliedWork are
// gone. It returns false for an owner that counts as content itself.
func (r *pruneRun) isOtherOwner(ctx context.Context, key Key, owner metav1.OwnerReference) (bool, error) {
	goes := func(i *pruneItem) bool { return i.entry.UID == owner.UID && !i.left }
	if owner.UID == r.work.UID || slices.ContainsFunc(r.items, goes) {
		return false, nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return true, nil // the garbage collector never resolves it
	}
	if isAppliedWork(owner) {
		holder := &unstructured.Unstructured{}
		holder.SetOwnerReferences([]metav1.OwnerReference{owner})
		owners, err := r.claims.owners(ctx, r.work.UID, key, holder)
		return err == nil && !owners.Dead(owner.UID), err
	}
	m, err := r.kinds.Resolve(ctx, schema.GroupKind{Group: gv.Group, Kind: owner.Kind}, gv.Version)
	if IsTypeNotServed(err) {
		return true, nil // the garbage collector keeps the object until it resolves the kind
	}
	if err != nil {
		return false, err
	}
	if m.Namespaced {
		ofKubernetes := isOfEveryNamespace(Key{Group: gv.Group, Kind: owner.Kind, Namespace: key.Namespace, Name: owner.Name})
		return ofKubernetes || isDisposable(m.GroupKind()), nil // these owners do not count as content
	}
	live := r.get(ctx, target{m, "", owner.Name})
	if apierrors.IsForbidden(live.err) {
		return true, nil
	}
	return live.obj != nil && live.obj.GetUID() == owner.UID, live.err
}

// isOfEveryNamespace reports whether Kubernetes creates an object of this name in every Namespace.
func isOfEveryNamespace(key Key) bool {
	if key.Group != "" {
		return false
	}
	switch key.Kind {
	case "ServiceAccount":
		return key.Name == "default"
	case "ConfigMap":
		return key.Name == "kube-root-ca.crt"
	}
	return false
}
