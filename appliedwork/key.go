// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Key identifies an object on a cluster. It has no version: the API server shows the same object in
// each version that it serves.
type Key struct {
	Group, Kind, Namespace, Name string
}

// GroupKind returns the kind without a version.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// String returns "Kind.group namespace/name", the form of errors and logs.
func (k Key) String() string {
	s := k.Kind
	if k.Group != "" {
		s += "." + k.Group
	}
	if k.Namespace != "" {
		return s + " " + k.Namespace + "/" + k.Name
	}
	return s + " " + k.Name
}

// Identify returns the identity of an object. The error is [ErrGenerateName] if the API server
// would choose the name, because each apply would create another object. Otherwise it is an
// [ErrInvalidObject], also for nil, which stands for a manifest that could not be decoded.
func Identify(obj *unstructured.Unstructured) (Key, error) {
	if obj == nil || obj.Object == nil {
		return Key{}, fmt.Errorf("%w: it could not be decoded", ErrInvalidObject)
	}
	if _, err := schema.ParseGroupVersion(obj.GetAPIVersion()); err != nil {
		return Key{}, fmt.Errorf("%w: %s %s/%s: %w", ErrInvalidObject, obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	gvk := obj.GroupVersionKind()
	key := Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch {
	case gvk.Kind == "":
		return key, lacks(key, "kind")
	case gvk.Version == "":
		return key, lacks(key, "apiVersion")
	case obj.IsList():
		return key, fmt.Errorf("%w: a %s is not an object: give each of its items", ErrInvalidObject, gvk.Kind)
	case key.Name == "" && obj.GetGenerateName() != "":
		return key, fmt.Errorf("%w: %s %q", ErrGenerateName, key, obj.GetGenerateName())
	case key.Name == "":
		return key, lacks(key, "metadata.name")
	}
	return key, nil
}

func lacks(key Key, field string) error {
	return fmt.Errorf("%w: %s has no %s", ErrInvalidObject, cmp.Or(strings.TrimSpace(key.String()), "it"), field)
}

// KeyOf returns the identity of the object of an inventory entry. Kind is empty if the entry has
// none.
func KeyOf(id v1alpha1.ResourceIdentifier) Key {
	return Key{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}
