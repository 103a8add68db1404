// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Key is the identity of an object on a cluster. The version is no part of it: the API server shows the same object in
// each version that it serves, so that a manifest with a newer apiVersion is still the manifest of that object.
type Key struct {
	Group, Kind, Namespace, Name string
}

// GroupKind returns the kind without a version.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// String returns Kind.group namespace/name, as errors and logs have it.
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

// Identify returns the identity of an object. The error is [ErrGenerateName] for one whose name the server would choose,
// as each apply would make another of it, and else an [ErrInvalidObject] that says what is missing. Nil, which stands for a
// manifest that could not be decoded, is an ErrInvalidObject.
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
		return key, fmt.Errorf("%w: %s has no kind", ErrInvalidObject, key)
	case gvk.Version == "":
		return key, fmt.Errorf("%w: %s has no apiVersion", ErrInvalidObject, key)
	case obj.IsList():
		return key, fmt.Errorf("%w: a %s is no object: give each of its items", ErrInvalidObject, gvk.Kind)
	case key.Name == "" && obj.GetGenerateName() != "":
		return key, fmt.Errorf("%w: %s %q", ErrGenerateName, key, obj.GetGenerateName())
	case key.Name == "":
		return key, fmt.Errorf("%w: %s has no metadata.name", ErrInvalidObject, key)
	}
	return key, nil
}

// KeyOf returns the identity of what an entry of the inventory names. Some implementations record no kind; then it is
// empty.
func KeyOf(id v1alpha1.ResourceIdentifier) Key {
	return Key{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}
