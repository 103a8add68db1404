// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/internal/access"
)

// Executor is a user with rights that limit the writes of [Applier.Apply]. Before Apply writes an
// object, it asks the API server whether the user may create or patch the object. With
// StrategyUpdate, update replaces patch. If the object gets our owner reference, or has owner
// references in its manifest, the user must also be allowed to delete it. A reference with
// blockOwnerDeletion in the manifest needs the right to update the finalizers of the owner.
//
// To write a Role or ClusterRole, the user needs the right escalate or all rights of the role. For
// a RoleBinding or ClusterRoleBinding, bind on its role replaces escalate. A role with more than
// 100 rights, nonResourceURLs or an aggregationRule is not compared: it always needs escalate or
// bind.
//
// Apply asks for the right on all names of a namespace. If the answer is no, it asks for the
// object's name, except for the verb create. Answers are valid for 10 seconds. An object that
// matches its manifest needs no rights. The requests themselves are those of [Options].Client.
type Executor struct {
	// User is the name of the user, such as system:serviceaccount:shop:deployer. Required.
	User string
	// Groups are the groups of the user. A service account needs system:serviceaccounts,
	// system:serviceaccounts:<namespace> and system:authenticated: no group is added.
	Groups []string
}

func (e *Executor) validate(reviews SubjectAccessReviews) error {
	switch {
	case e == nil:
		return nil
	case e.User == "":
		return fmt.Errorf("%w: ApplyOptions.Executor.User is required", ErrInvalidInput)
	case reviews == nil:
		return fmt.Errorf("%w: ApplyOptions.Executor requires Options.Reviews", ErrInvalidInput)
	}
	return nil
}

// authorize returns an error, usually Forbidden, if the executor lacks a verb on an object.
func (r *applyRun) authorize(ctx context.Context, item *applyItem, verbs ...string) error {
	about := authorizationv1.ResourceAttributes{
		Group: item.mapping.Resource.Group, Version: item.mapping.Resource.Version,
		Resource: item.mapping.Resource.Resource, Namespace: item.id.Namespace,
	}
	for _, verb := range verbs {
		about.Verb = verb
		if err := r.may(ctx, item, about, item.id.Name); err != nil {
			return err
		}
	}
	if err := r.mayGrant(ctx, item); err != nil {
		return err
	}
	for _, owner := range r.foreignOwners(item) {
		if err := r.mayBlock(ctx, item, owner); err != nil {
			return err
		}
	}
	return nil
}

func (r *applyRun) ask(ctx context.Context, about authorizationv1.ResourceAttributes) (*access.Answer, error) {
	return r.access.Ask(ctx, r.opts.Executor.User, r.opts.Executor.Groups, about)
}

// may returns an error if the executor lacks a right on the object of a name, which the item needs.
func (r *applyRun) may(
	ctx context.Context, item *applyItem, about authorizationv1.ResourceAttributes, name string,
) error {
	a, err := r.ask(ctx, about)
	if err == nil && !a.Allowed && about.Verb != "create" {
		about.Name = name
		a, err = r.ask(ctx, about)
	}
	if err != nil {
		return r.reviewError(item, about, err)
	}
	if !a.Allowed {
		return r.forbidden(item, about, name, a.Reason)
	}
	return nil
}

// reviewError returns the error of an access review that failed, or nil.
func (r *applyRun) reviewError(item *applyItem, about authorizationv1.ResourceAttributes, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ask whether user %q may %s %s for %s: %w",
		r.opts.Executor.User, about.Verb, about.Resource, item.change.Key, notForbidden(err))
}

// foreignOwners returns the other owner references in a manifest that Apply writes.
func (r *applyRun) foreignOwners(item *applyItem) []metav1.OwnerReference {
	if item.live != nil && item.options.Strategy == StrategyCreateOnly {
		return nil
	}
	return slices.DeleteFunc(item.source.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.UID == r.work.UID
	})
}

// mayBlock returns an error if the executor may not set a new reference that blocks the deletion of
// an owner, as the admission plugin OwnerReferencesPermissionEnforcement does.
func (r *applyRun) mayBlock(ctx context.Context, item *applyItem, owner metav1.OwnerReference) error {
	blocks := func(other metav1.OwnerReference) bool {
		return other.UID == owner.UID && isTrue(other.BlockOwnerDeletion)
	}
	if !blocks(owner) || item.live != nil && slices.ContainsFunc(item.live.GetOwnerReferences(), blocks) {
		return nil
	}
	m, err := r.resolveExactly(ctx, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if err != nil {
		return fmt.Errorf("look up the owner %s %s of %s: %w", owner.Kind, owner.Name, item.change.Key, err)
	}
	about := authorizationv1.ResourceAttributes{
		Verb: "update", Group: m.Resource.Group, Version: m.Resource.Version,
		Resource: m.Resource.Resource, Subresource: "finalizers",
	}
	if m.Namespaced {
		about.Namespace = item.id.Namespace
	}
	return r.may(ctx, item, about, owner.Name)
}

// authorizeNew fails new items that the executor may not write, before they are recorded.
func (r *applyRun) authorizeNew(ctx context.Context) {
	if r.opts.Executor == nil {
		return
	}
	parallel(ctx, len(r.items), r.opts.Concurrency, func(i int) {
		item := r.items[i]
		if !item.mapped || item.isFinished() || item.ours {
			return
		}
		if item.live == nil || item.live.GetDeletionTimestamp() == nil {
			r.mayWrite(ctx, item)
		}
	})
}

// mayWrite fails an item that the executor may not write, or without the verbs in more.
func (r *applyRun) mayWrite(ctx context.Context, item *applyItem, more ...string) bool {
	if r.opts.Executor == nil {
		return true
	}
	err := r.authorize(ctx, item, append(r.verbs(item), more...)...)
	if err != nil {
		item.refuse(fmt.Errorf("apply %s: %w", item.change.Key, err))
	}
	return err == nil
}

func (r *applyRun) forbidden(item *applyItem, about authorizationv1.ResourceAttributes, name, reason string) error {
	resource := schema.GroupResource{Group: about.Group, Resource: about.Resource}
	full := strings.TrimSuffix(about.Resource+"/"+about.Subresource, "/")
	text := fmt.Sprintf("user %q cannot %s resource %q in API group %q",
		r.opts.Executor.User, about.Verb, full, about.Group)
	if about.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", about.Namespace)
	}
	switch {
	case about.Subresource != "":
		text += fmt.Sprintf(", which is needed as %s blocks the deletion of its owner", item.change.Key)
	case about.Verb == "bind", about.Verb == "escalate":
		text += fmt.Sprintf(", which is needed as %s grants rights", item.change.Key)
	case about.Verb == "delete":
		text += ", which is needed as the object goes with its owners"
	}
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(resource, name, errors.New(text))
}

// notForbidden hides the status Forbidden of an error: the agent lacks the right, not the executor.
func notForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("the agent may not: %s", err.Error())
	}
	return err
}

func (r *applyRun) verbs(item *applyItem) []string {
	verb := "create"
	switch {
	case item.live == nil:
	case item.options.Strategy == StrategyUpdate:
		verb = "update"
	default:
		verb = "patch"
	}
	if r.isUnowned(item) && len(r.foreignOwners(item)) == 0 {
		return []string{verb}
	}
	return []string{verb, "delete"}
}
