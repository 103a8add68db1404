// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
)

// isRefusal reports whether an error proves that a request changed nothing.
func isRefusal(err error) bool {
	if isA[*AdoptionError](err) || isA[*OwnershipConflictError](err) || errors.Is(err, ErrChanged) ||
		errors.Is(err, errMoved) || errors.Is(err, ErrInvalidObject) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout ||
		isTooLarge(status.Status().Message)
}

// isTooLarge reports whether etcd has refused an object: an internal error of the API server.
func isTooLarge(message string) bool {
	return strings.Contains(message, "etcdserver: request is too large") ||
		strings.Contains(message, "trying to send message larger than max")
}

// isInvalid reports whether the API server has refused an object because of a field.
func isInvalid(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}

// isDryRunRefused reports whether a webhook has refused a request because it was a dry run.
func isDryRunRefused(err error) bool {
	return strings.Contains(err.Error(), "does not support dry run")
}

// conflictOf returns the error for fields that others manage, or nil for another error.
func conflictOf(key Key, err error) *OwnershipConflictError {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) ||
		!errors.As(err, &status) {
		return nil
	}
	conflict := &OwnershipConflictError{Key: key, Err: err}
	for _, cause := range status.Status().Details.Causes {
		conflict.Fields = append(conflict.Fields, cause.Field+": "+cause.Message)
		conflict.paths = append(conflict.paths, cause.Field)
	}
	return conflict
}

// isWithNobody reports whether no field of a conflict has a manager, for example after a release.
func (e *OwnershipConflictError) isWithNobody() bool {
	return e != nil && !slices.ContainsFunc(e.Fields, func(field string) bool {
		return !strings.Contains(field, `conflict with "before-first-apply"`)
	})
}

// withOthers returns the part of the conflict with managers that are not ours, or nil.
func (e *OwnershipConflictError) withOthers(ours func(manager string) bool) *OwnershipConflictError {
	others := &OwnershipConflictError{Key: e.Key, Err: e.Err}
	for i, field := range e.Fields {
		_, rest, _ := strings.Cut(field, `conflict with "`)
		if manager, _, _ := strings.Cut(rest, `"`); !ours(manager) {
			others.Fields, others.paths = append(others.Fields, field), append(others.paths, e.paths[i])
		}
	}
	if len(others.Fields) == 0 {
		return nil
	}
	return others
}

// without removes the fields of the conflict from a manifest, and reports whether it found all.
func (e *OwnershipConflictError) without(
	manifest, live *unstructured.Unstructured, ours func(manager string) bool,
) bool {
	theirs := fieldset.Merged(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return !ours(e.Manager) })
	return fieldset.Remove(manifest.Object, theirs, e.paths)
}

// explain returns errMoved if the object has changed since it was read, or a typed error for err.
func (r *applyRun) explain(ctx context.Context, item *applyItem, err error) error {
	switch {
	case IsTypeNotServed(err):
		r.kinds.Forget(item.mapping.Resource.Group)
		return r.precisely(ctx, item, &TypeNotServedError{Kind: item.change.Key.GroupKind(), Err: err})
	case conflictOf(item.change.Key, err) != nil:
		item.fail(conflictOf(item.change.Key, err))
		return nil
	case apierrors.IsConflict(err):
		return errMoved
	case apierrors.IsNotFound(err) && item.live != nil:
		return errMoved
	case isInvalid(err, "metadata.uid"): // deleted and created again since it was read
		return errMoved
	}
	return err
}

// precisely replaces err if only the version of the manifest is not served.
func (r *applyRun) precisely(ctx context.Context, item *applyItem, err error) error {
	if !IsTypeNotServed(err) {
		return err
	}
	_, now := r.resolveExactly(ctx, item.change.Key.GroupKind().WithVersion(item.id.Version))
	if notServed, ok := errors.AsType[*TypeNotServedError](now); ok && notServed.Served != "" {
		return notServed
	}
	return err
}
