// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/fielddiff"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var _ connector.Differ = &cluster{}

// Diff compares each object with the result of a dry run of its apply. It sends up to three
// requests for an object to apply, and one for an object to delete.
func (c *cluster) Diff(ctx context.Context, batch connector.DiffBatch) ([]connector.Change, error) {
	resources := slices.Concat(batch.Apply, batch.Delete)
	changes := make([]connector.Change, len(resources))
	all := make([]int, len(resources))
	for i := range all {
		all[i] = i
	}
	err := c.parallel(all, func(i int) (err error) {
		change := &changes[i]
		change.Object = resources[i].Object
		if i < len(batch.Apply) {
			err = c.diffApply(ctx, batch.Holder, &resources[i], change)
		} else {
			err = c.diffDelete(ctx, &resources[i], change)
		}
		return unknown(change, err)
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// unknown converts a terminal error of an object to a ChangeUnknown.
func unknown(change *connector.Change, err error) error {
	if err == nil || !errors.Is(err, connector.ErrTerminal) {
		return err
	}
	change.Kind, change.Message = connector.ChangeKindUnknown, driver.Cause(err).Error()
	return nil
}

func (c *cluster) diffDelete(ctx context.Context, r *appcontext.Resource, change *connector.Change) error {
	if isProtected(r.Object) {
		change.Kind, change.Message = connector.ChangeKindRefused, "the namespace is protected, and is not deleted"
		return nil
	}
	live, err := c.getObject(ctx, c.kindOf(r), r.Object)
	change.Kind = connector.ChangeKindNone
	if live != nil {
		change.Kind = connector.ChangeKindDelete
	}
	return err
}

func (c *cluster) diffApply(
	ctx context.Context, holder holderFunc, r *appcontext.Resource, change *connector.Change,
) error {
	m, err := c.read(r)
	if err != nil {
		change.Kind, change.Message = connector.ChangeKindRefused, driver.Cause(err).Error()
		return nil
	}
	live, err := c.getObject(ctx, m.gvk, m.object)
	if err != nil {
		return err
	}
	body, refused := c.patch(ctx, m, true)
	if refused != nil {
		return c.diffRefused(ctx, holder, m, live, refused, change)
	}
	switch {
	case live == nil:
		change.Kind = connector.ChangeKindCreate
	case live.GetDeletionTimestamp() != nil:
		change.Kind, change.Message = connector.ChangeKindCreate, errLeaving.Error()
	default:
		next, err := decode(body, m.object)
		if err != nil {
			return err
		}
		compare(change, live, next.Object)
	}
	return nil
}

// diffRefused returns the change for an object after its dry run was rejected.
func (c *cluster) diffRefused(
	ctx context.Context, holder holderFunc, m *manifest, live *unstructured.Unstructured, refused *refusal,
	change *connector.Change,
) error {
	err := refused.err
	immutable := live != nil && refused.fields() != nil && foundation(m.object) == objects
	if immutable {
		err = c.mayReplace(ctx, holder, m, live, refused)
	}
	switch {
	case immutable && err == nil:
		compare(change, live, written(live, m))
		change.Kind = connector.ChangeKindReplace
	case live != nil && live.GetDeletionTimestamp() != nil:
		change.Kind, change.Message = connector.ChangeKindCreate, errLeaving.Error()
	case live == nil && isPremature(refused.answer):
		change.Kind, change.Message = connector.ChangeKindCreate, "not checked: "+driver.Cause(err).Error()
	case isDryRunRefused(refused.answer):
		change.Kind = connector.ChangeKindCreate
		if live != nil {
			compare(change, live, written(live, m))
		}
		change.Message = "not checked: a webhook of the cluster does not support dry runs"
	case errors.Is(connector.ClassOf(err), connector.ErrTerminal):
		change.Kind, change.Message = connector.ChangeKindRefused, driver.Cause(err).Error()
	default:
		return err
	}
	return nil
}

// written returns a live object with the fields of a manifest.
func written(live *unstructured.Unstructured, m *manifest) map[string]any {
	content, _ := contentOf(m.json) // which is always valid
	return fielddiff.Overlay(live.Object, content)
}

// isPremature reports whether the same event may first apply what the error misses.
func isPremature(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		details := status.Status().Details
		return details != nil && details.Kind == "namespaces"
	}
	return errors.Is(err, errNotServed)
}

// isDryRunRefused reports whether a webhook has rejected a request only because it was a dry run.
func isDryRunRefused(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// serverFields are the fields of the metadata that the API server sets with each write.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"}

// compare sets the changes of a live object.
func compare(change *connector.Change, live *unstructured.Unstructured, next map[string]any) {
	before, after := withoutServerFields(live.Object), withoutServerFields(next)
	change.SetFields(before, after)
	change.Kind = connector.ChangeKindUpdate
	if len(change.Fields)+change.FieldsOmitted == 0 {
		change.Kind = connector.ChangeKindNone
	}
}

// withoutServerFields returns a shallow copy of an object without serverFields.
func withoutServerFields(object map[string]any) map[string]any {
	out := maps.Clone(object)
	if metadata, ok := out["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range serverFields {
			delete(metadata, field)
		}
		out["metadata"] = metadata
	}
	return out
}
