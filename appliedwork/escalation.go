// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/access"
)

// mayGrant returns an error if an object is a role or a binding with rights that the executor may
// not grant. The API server checks only the agent.
func (r *applyRun) mayGrant(ctx context.Context, item *applyItem) error {
	if item.live != nil && item.options.Strategy == StrategyCreateOnly {
		return nil // its rights are not written
	}
	about := authorizationv1.ResourceAttributes{Group: rbacGroup, Version: "*", Namespace: item.id.Namespace}
	roles := func() ([]*unstructured.Unstructured, error) { return []*unstructured.Unstructured{item.source}, nil }
	switch item.change.Key.GroupKind() {
	default:
		return nil
	case roleKind, clusterRoleKind:
		same := func(field string) bool { return reflect.DeepEqual(item.live.Object[field], item.source.Object[field]) }
		if item.live != nil && same("rules") && same("aggregationRule") {
			return nil
		}
		about.Verb, about.Resource, about.Name = "escalate", item.id.Resource, item.id.Name
	case roleBindingKind, clusterRoleBindingKind:
		about.Verb, about.Resource, about.Name = "bind", "clusterroles", textAt(item.source, "roleRef", "name")
		role := Key{Group: rbacGroup, Kind: textAt(item.source, "roleRef", "kind"), Name: about.Name}
		if role.Kind == roleKind.Kind {
			about.Resource, role.Namespace = "roles", item.id.Namespace
		}
		roles = func() ([]*unstructured.Unstructured, error) { return r.rolesOf(ctx, role) }
	}
	a, err := r.ask(ctx, about)
	if err != nil || a.Allowed {
		return r.reviewError(item, about, err)
	}
	granting, err := roles()
	if err != nil {
		return fmt.Errorf("read the role of %s: %w", item.change.Key, notForbidden(err))
	}
	grants, countable := access.Grants(granting, item.id.Namespace)
	if !countable {
		return r.forbidden(item, about, about.Name, a.Reason)
	}
	for _, grant := range grants {
		a, err := r.ask(ctx, grant)
		if err != nil {
			return r.reviewError(item, grant, err)
		}
		if !a.Allowed {
			return r.forbidden(item, about, about.Name,
				fmt.Sprintf("the user cannot %s resource %q in API group %q either", grant.Verb, grant.Resource, grant.Group))
		}
	}
	return nil
}

// rolesOf returns the live role, which a binding grants until the other is written, and the other.
func (r *applyRun) rolesOf(ctx context.Context, key Key) (roles []*unstructured.Unstructured, err error) {
	if i := slices.IndexFunc(r.items, func(item *applyItem) bool { return item.change.Key == key }); i >= 0 {
		roles = append(roles, r.items[i].source)
	}
	m, err := r.kinds.Resolve(ctx, key.GroupKind(), "")
	if err != nil {
		return nil, err
	}
	f := r.get(ctx, target{m, key.Namespace, key.Name})
	if f.obj != nil {
		roles = append(roles, f.obj)
	}
	return roles, f.err
}
