// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// configuration is an apply request: the state of an object that its manager applies.
type configuration struct {
	data    []byte
	options metav1.PatchOptions
	sub     Subresource
	fields  *managedfields.FieldManager
	// creates is true if the role may create objects, and so change specs.
	creates bool
}

// apply merges a configuration into an object, and creates the object if it does not exist.
func (w *works) apply(
	ctx context.Context, name string, data []byte, opts metav1.PatchOptions, sub Subresource,
) (*workv1.ManifestWork, error) {
	fields, err := crd.FieldManager(string(sub))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	creates := sub == whole && w.backend.Supports("create", whole) == nil
	c := &configuration{data: data, options: opts, sub: sub, fields: fields, creates: creates}
	o := changeOptions{sub: sub, dryRun: len(opts.DryRun) > 0, patched: true, applied: true, managed: true}
	for range maxCommits {
		out, err := w.mutate(ctx, name, o, func(current *workv1.ManifestWork) (*workv1.ManifestWork, field.ErrorList, error) {
			return w.configure(c, current, name)
		})
		if !creates || !apierrors.IsNotFound(err) {
			return out, err
		}
		obj, invalid, err := w.configure(c, nil, name)
		if err != nil {
			return nil, err
		}
		if _, err := parseVersion(obj.ResourceVersion); err != nil {
			return nil, InternalError("%v", err)
		}
		obj.Namespace, obj.ResourceVersion = w.namespace, "" // a new object has no version yet
		tidy(&obj.ObjectMeta)
		if len(invalid) > 0 {
			return nil, ValidateNew(obj, invalid)
		}
		out, err = w.backend.Create(ctx, obj, Create{DryRun: o.dryRun})
		if err == nil {
			return out.DeepCopy(), nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return nil, conflict(name)
}

// configure returns the object after the configuration is applied to current, and the errors by the
// schema. current is nil for a new object. If there are errors, spec or status stays unchanged: the
// invalid JSON may not decode to the Go type.
func (w *works) configure(
	c *configuration, current *workv1.ManifestWork, name string,
) (*workv1.ManifestWork, field.ErrorList, error) {
	merged, namesSpec, err := c.merge(current)
	if err != nil {
		return nil, nil, err
	}
	if current == nil && merged.GetUID() != "" {
		return nil, nil, apierrors.NewConflict(Resource, name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", merged.GetUID()))
	}
	if err := w.stays(merged.GetNamespace(), merged.GetName(), name); err != nil {
		return nil, nil, err
	}
	return adopt(merged, current, c.sub, c.creates || namesSpec)
}

// adopt converts the next state of an object, with the errors by the schema. completes is false if
// the spec stays as it is. The part that the subresource does not have stays too.
func adopt(
	obj *unstructured.Unstructured, current *workv1.ManifestWork, sub Subresource, completes bool,
) (*workv1.ManifestWork, field.ErrorList, error) {
	member, other := "spec", crd.Status
	if sub == StatusPart {
		member, other = other, member
	}
	delete(obj.Object, other)
	foreign := obj.GetAPIVersion() != ownType.APIVersion || obj.GetKind() != ownType.Kind
	// An agent shows specs as received, even if invalid: it neither completes nor refuses them.
	kept := member == "spec" && !completes
	var invalid field.ErrorList
	if value, ok := obj.Object[member]; ok && !kept {
		if foreign {
			invalid = crd.ForeignValue(member, value)
			kept = member == "spec" // such an object is refused
		} else {
			invalid = crd.Validate(member, value)
		}
	}
	if kept || len(invalid) > 0 {
		delete(obj.Object, member)
	}
	next, err := crd.Typed(obj, current)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	if current == nil {
		return next, invalid, nil
	}
	if _, ok := obj.Object["spec"]; !ok && (sub == StatusPart || kept || len(invalid) > 0) {
		next.Spec = current.Spec
	}
	if sub == whole || len(invalid) > 0 {
		next.Status = current.Status
	}
	if sameManaged(current, next) {
		next.ManagedFields = current.ManagedFields // applying the same again changes nothing, not even the time
	}
	return next, invalid, nil
}

// merge applies the configuration with the API server's field manager. It also returns whether the
// configuration has a spec.
func (c *configuration) merge(
	current *workv1.ManifestWork,
) (merged *unstructured.Unstructured, namesSpec bool, err error) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetAPIVersion(workv1.GroupName + "/v1")
	live.SetKind(Kind.Kind)
	if current != nil {
		if live, err = crd.Unstructured(current); err != nil {
			return nil, false, apierrors.NewInternalError(err)
		}
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if err := decodeConfiguration(c.data, &wanted.Object); err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	_, namesSpec = wanted.Object["spec"]
	obj, err := c.fields.Apply(live, wanted, c.options.FieldManager, ptr.Deref(c.options.Force, false))
	if err != nil {
		return nil, false, asStatus(err)
	}
	if c.options.FieldValidation == metav1.FieldValidationStrict {
		if _, err := yamldoc.StrictJSON(c.data); err != nil {
			return nil, false, apierrors.NewBadRequest(
				fmt.Sprintf("error strict decoding YAML: error converting YAML to JSON: %v", err))
		}
	}
	merged, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, false, apierrors.NewInternalError(fmt.Errorf("the field manager returned a %T", obj))
	}
	return merged, namesSpec, nil
}

// decodeConfiguration reads YAML or JSON. Its errors have the API server's texts.
func decodeConfiguration(data []byte, into *map[string]any) error {
	text, err := yamldoc.JSON(data)
	if err != nil {
		return fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	if err := utiljson.Unmarshal(text, into); err != nil {
		return fmt.Errorf("error unmarshaling JSON: while decoding JSON: %w", err)
	}
	return nil
}

// asStatus converts an error as the API server does: an error without a status is an internal
// error.
func asStatus(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    500,
		Reason:  metav1.StatusReasonUnknown,
		Message: err.Error(),
	}}
}
