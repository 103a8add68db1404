// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// An object with Flux's annotation in its manifest is replaced if immutable fields change.
const (
	forceAnnotation = "kustomize.toolkit.fluxcd.io/force"
	forceEnabled    = "enabled"
)

// errLeaving: an apply to an object that is being deleted would be lost with the object.
var errLeaving = errors.New("the object is being deleted, and is applied again when it is gone")

type holderFunc = func(ctx context.Context, object appcontext.Object) (string, error)

// replace deletes an object with rejected changes of immutable fields, if mayReplace allows it, so
// the next apply creates the object again. It returns no error if the object is gone already.
func (c *cluster) replace(
	ctx context.Context, holder holderFunc, m *manifest, refused *refusal,
) (deleted bool, err error) {
	if foundation(m.object) != objects { // its content would be deleted with it
		return false, refused.err
	}
	live, err := c.getObject(ctx, m.gvk, m.object)
	if err != nil || live == nil {
		return false, err
	}
	if err := c.mayReplace(ctx, holder, m, live, refused); err != nil {
		return false, err
	}
	return true, c.remove(ctx, m, live)
}

// mayReplace returns an error if an object must not be replaced.
func (c *cluster) mayReplace(
	ctx context.Context, holder holderFunc, m *manifest, live *unstructured.Unstructured, refused *refusal,
) error {
	if live.GetDeletionTimestamp() != nil {
		return driver.Fault(connector.ErrRetryable, m.object, "apply: %w", errLeaving)
	}
	fields := strings.Join(some(refused.fields()), ", ")
	switch err := c.tryCreate(ctx, m, live); {
	case err != nil && (m.force || !errors.Is(connector.ClassOf(err), connector.ErrTerminal)):
		return driver.Fault(connector.ClassOf(err), m.object,
			"immutable fields (%s): the object is not replaced, because it could not be created again: %w",
			fields, driver.Cause(err))
	case err != nil:
		return refused.err
	case !m.force:
		return driver.Fault(connector.ErrTerminal, m.object, "immutable fields (%s): to have the object deleted and "+
			"created again, set the annotation %s: %s in its manifest", fields, forceAnnotation, forceEnabled)
	}
	if why := c.foreign(m, live); why != "" {
		return driver.Fault(connector.ErrTerminal, m.object, "immutable fields (%s): the object is not replaced, because %s",
			fields, why)
	}
	if holder != nil {
		other, err := holder(ctx, m.object)
		if err != nil {
			return driver.Fault(connector.ErrRetryable, m.object, "find app contexts that hold it: %w", err)
		}
		if other != "" {
			return driver.Fault(connector.ErrTerminal, m.object,
				"immutable fields (%s): the object is not replaced, because %s holds it too", fields, other)
		}
	}
	return nil
}

// tryCreate returns nil if the API server would create an object if it did not exist.
func (c *cluster) tryCreate(ctx context.Context, m *manifest, live *unstructured.Unstructured) error {
	text, err := withoutPorts(m, live)
	if err != nil {
		return err
	}
	return c.call(ctx, m.object, "try to create", func(ctx context.Context, cl *client) error {
		err := c.served(ctx, cl, m.gvk, m.object, func(k kind) error {
			return cl.rest.Post().AbsPath(k.path(m.object.Namespace, "")...).MaxRetries(0).
				Param("fieldManager", c.options.FieldManager).
				Param("dryRun", metav1.DryRunAll).Body(text).Do(ctx).Error()
		})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// withoutPorts returns a manifest without the node ports of the live Service.
func withoutPorts(m *manifest, live *unstructured.Unstructured) ([]byte, error) {
	if m.object.Group != "" || m.object.Kind != "Service" {
		return m.json, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(m.json); err != nil {
		return nil, err
	}
	taken := map[any]bool{}
	each := func(u *unstructured.Unstructured, do func(port map[string]any)) {
		spec, _ := u.Object["spec"].(map[string]any)
		ports, _ := spec["ports"].([]any)
		for _, p := range ports {
			if port, ok := p.(map[string]any); ok {
				do(port)
			}
		}
	}
	each(live, func(port map[string]any) { taken[port["nodePort"]] = true })
	each(u, func(port map[string]any) {
		if taken[port["nodePort"]] {
			delete(port, "nodePort")
		}
	})
	return u.MarshalJSON()
}

// foreign returns the reason why an object does not only belong to this connector, or "".
func (c *cluster) foreign(m *manifest, live *unstructured.Unstructured) string {
	ours := false
	var others []string
	for _, e := range live.GetManagedFields() {
		switch {
		case e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "":
		case e.Manager == c.options.FieldManager:
			ours = true
		default:
			others = append(others, fmt.Sprintf("%q", e.Manager))
		}
	}
	switch {
	case !ours:
		return fmt.Sprintf("the field manager %q has not applied it before", c.options.FieldManager)
	case len(others) > 0:
		return "others apply it too: " + strings.Join(some(others), ", ")
	}
	for _, owner := range live.GetOwnerReferences() {
		if !slices.Contains(m.owners, owner.UID) {
			return fmt.Sprintf("its owner is %s %s", owner.Kind, owner.Name)
		}
	}
	return ""
}

// remove deletes the object that was read, unless it was replaced or changed since.
func (c *cluster) remove(ctx context.Context, m *manifest, live *unstructured.Unstructured) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	_, err := c.requestDelete(ctx, "delete, to create it again", m.gvk, m.object, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	return err
}
