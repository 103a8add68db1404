// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// explain returns errMoved if an error shows that the object has changed since it was read. It
// replaces other errors with a typed error if there is one.
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

// precisely returns an error with a served version of the kind, if only the version of the manifest
// is not served. Otherwise it returns err.
func (r *applyRun) precisely(ctx context.Context, item *applyItem, err error) error {
	if !IsTypeNotServed(err) {
		return err
	}
	var notServed *TypeNotServedError
	_, now := r.resolveExactly(ctx, item.change.Key.GroupKind().WithVersion(item.id.Version))
	if errors.As(now, &notServed) && notServed.Served != "" {
		return notServed
	}
	return err
}
