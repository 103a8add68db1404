// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memcluster

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// Apply creates or changes an object by server-side apply, and returns the stored object. A status
// in obj is ignored: on a cluster it belongs to a subresource. The error is NotFound for a missing
// namespace, and BadRequest for an object that its kind does not allow. It is Conflict if another
// manager owns a field with another value and o.Force is not set.
func (c *Cluster) Apply(
	_ context.Context, kind kinds.Kind, obj *unstructured.Unstructured, o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	obj = obj.DeepCopy()
	delete(obj.Object, "status")
	if err := c.check(kind, obj, o); err != nil {
		return nil, err
	}
	custom, err := kinds.Defined(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	k := keyOf(kind, obj.GetNamespace(), obj.GetName())
	live := c.objects[k]
	merged, err := merge(kind.GVK, live, obj, o)
	if err != nil {
		return nil, err
	}
	if live == nil || !sameObject(live.Unstructured, merged) {
		if live != nil && len(custom) > 0 {
			c.forgetKinds(live.Unstructured)
		}
		for _, defined := range custom {
			c.custom[defined.GVK] = defined
		}
		c.store(k, live, merged)
	}
	return c.present(c.objects[k], kind.GVK.GroupVersion()), nil
}

// forgetKinds removes the kinds of a definition that is replaced, but keeps their objects.
func (c *Cluster) forgetKinds(crd *unstructured.Unstructured) {
	custom, _ := kinds.Defined(crd)
	for _, k := range custom {
		delete(c.custom, k.GVK)
	}
}

// check does the checks of an API server before a merge.
func (c *Cluster) check(kind kinds.Kind, obj *unstructured.Unstructured, o metav1.ApplyOptions) error {
	gr, name, ns := kind.GVR().GroupResource(), obj.GetName(), obj.GetNamespace()
	if o.FieldManager == "" {
		return apierrors.NewBadRequest("fieldManager is required for apply patch")
	}
	if problems := content.IsPathSegmentName(name); name == "" || len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("%s %q: invalid name %s", kind.GVK.Kind, name,
			strings.Join(problems, ", ")))
	}
	switch {
	case !kind.Namespaced && ns != "":
		return apierrors.NewBadRequest(fmt.Sprintf("%s is cluster-scoped, but %q has the namespace %q", kind.GVK.Kind,
			name, ns))
	case kind.Namespaced && ns == "":
		return apierrors.NewBadRequest(fmt.Sprintf("%s %q needs a namespace", kind.GVK.Kind, name))
	case kind.Namespaced:
		namespaces, _ := kinds.BuiltIn(kinds.Namespace)
		if _, ok := c.objects[keyOf(namespaces, "", ns)]; !ok {
			return apierrors.NewNotFound(namespaces.GVR().GroupResource(), ns)
		}
	}
	typed, err := scheme.Scheme.New(kind.GVK)
	if err != nil {
		return nil // a custom resource, or a definition of one
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s %q is not valid: %v", gr.String(), name, err))
	}
	return nil
}

// merge applies obj on top of live and returns the result with its managed fields.
func merge(
	gvk schema.GroupVersionKind, live *record, obj *unstructured.Unstructured, o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	manager, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(),
		untyped{}, untyped{}, untyped{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	base := newObject(gvk)
	if live != nil {
		base = live.DeepCopy()
		base.SetGroupVersionKind(gvk)
	}
	merged, err := manager.Apply(base, obj, o.FieldManager, o.Force)
	if err != nil {
		return nil, err
	}
	u, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("apply made a %T", merged))
	}
	return u, nil
}

// sameObject reports whether an apply changed nothing. The field manager sets the time of every
// apply. This alone is no change: an API server then keeps the resourceVersion, too.
func sameObject(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(unstamped(a), unstamped(b))
}

func unstamped(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	obj.SetManagedFields(fields)
	for _, server := range []string{"uid", "creationTimestamp", "generation", "resourceVersion"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", server)
	}
	return obj.Object
}

// sameSpec reports whether the generation stays: it counts changes outside metadata and status.
func sameSpec(a, b *unstructured.Unstructured) bool {
	rest := func(obj *unstructured.Unstructured) map[string]any {
		content := map[string]any{}
		for k, v := range obj.Object {
			if k != "metadata" && k != "status" && k != "apiVersion" {
				content[k] = v
			}
		}
		return content
	}
	return equality.Semantic.DeepEqual(rest(a), rest(b))
}

func newObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// untyped implements the parts of a scheme that the field manager needs, for objects without Go
// types. Versions differ in their names only, as with the conversion strategy None of a
// CustomResourceDefinition.
type untyped struct{}

func (untyped) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return newObject(gvk), nil }

func (untyped) Default(runtime.Object) {}

func (untyped) Convert(_, _, _ any) error {
	return fmt.Errorf("conversion into another type is not supported")
}

func (untyped) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (untyped) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("cannot convert %v", in.GetObjectKind().GroupVersionKind())
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, nil
}
