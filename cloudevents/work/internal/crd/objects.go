// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// objects implements the interfaces that a field manager needs in addition to the schema. There is
// one version, so a conversion is a copy. It must not repair objects, like that of the API server:
// after a merge, an object that lost its last member is null, and the schema refuses it.
type objects struct{}

var (
	_ runtime.ObjectConvertor = objects{}
	_ runtime.ObjectDefaulter = objects{}
	_ runtime.ObjectCreater   = objects{}
)

// New implements [runtime.ObjectCreater].
func (objects) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// Default implements [runtime.ObjectDefaulter].
func (objects) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		defaults(u.Object, Schema())
	}
}

// Convert implements [runtime.ObjectConvertor]; a field manager does not call it.
func (objects) Convert(any, any, any) error {
	return fmt.Errorf("there is one version of ManifestWork")
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (objects) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a %T is not unstructured", in)
	}
	return u.DeepCopy(), nil
}

// ConvertFieldLabel implements [runtime.ObjectConvertor]; a field manager does not call it.
func (objects) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// shape converts an object as the API server does when it reads one: it removes unknown members,
// nulls and empty metadata, also in the manifests.
func shape(obj map[string]any) error {
	Prune(obj, Schema(), "")
	dropNulls(obj, Schema())
	visit(nil, obj, Schema(), func(_ *field.Path, x any, s *spec.Schema) bool {
		if manifest, ok := x.(map[string]any); ok && extension[bool](s, embedded) {
			_ = shapeMetadata(manifest) // invalid metadata stays unchanged
		}
		return true
	})
	return shapeMetadata(obj)
}

func shapeMetadata(obj map[string]any) error {
	metadata, ok := obj["metadata"]
	if !ok {
		return nil
	}
	typed, err := decodeMetadata(metadata)
	if err != nil {
		return err
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	if typed.CreationTimestamp.IsZero() {
		delete(back, "creationTimestamp")
	}
	obj["metadata"] = back
	return nil
}
