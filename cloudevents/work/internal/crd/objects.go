// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"
)

// Objects implements the interfaces that a field manager needs in addition to the schema. There is
// one version, so a conversion is a copy. It must not repair objects, like that of the API server:
// after a merge, an object that lost its last member is null, and the schema refuses it.
type Objects struct{}

var (
	_ runtime.ObjectConvertor = Objects{}
	_ runtime.ObjectDefaulter = Objects{}
	_ runtime.ObjectCreater   = Objects{}
)

// New implements [runtime.ObjectCreater].
func (Objects) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// Default implements [runtime.ObjectDefaulter].
func (Objects) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		defaults(u.Object, Schema())
	}
}

// Convert implements [runtime.ObjectConvertor] for the plugins of admission. The result may share the
// content of in.
func (Objects) Convert(in, out, _ any) error {
	to, ok := out.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("a %T is not unstructured", out)
	}
	switch in := in.(type) {
	case *unstructured.Unstructured:
		to.Object = in.Object
	case *workv1.ManifestWork:
		u, err := Unstructured(in)
		if err != nil {
			return err
		}
		to.Object = u.Object
	default:
		return fmt.Errorf("a %T is not a ManifestWork", in)
	}
	return nil
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (Objects) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a %T is not unstructured", in)
	}
	return u.DeepCopy(), nil
}

// ConvertFieldLabel implements [runtime.ObjectConvertor]. All labels stay: package clientset refuses
// the unknown ones.
func (Objects) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Shape converts a decoded object to the form that the API server stores, with defaults. It returns
// the paths of the members that it removed. Of another kind it converts only the metadata.
func Shape(u *unstructured.Unstructured) (unknown []string, err error) {
	unknown = unknownMetadata(u.Object["metadata"])
	if u.GroupVersionKind() != gvk {
		return unknown, shapeMetadata(u.Object)
	}
	for _, member := range []string{"spec", Status} {
		if err := unreadable(member, u.Object[member]); err != nil {
			return nil, err
		}
	}
	paths, err := shape(u.Object)
	defaults(u.Object, Schema())
	return append(unknown, paths...), err
}

func unknownMetadata(metadata any) (paths []string) {
	data, err := json.Marshal(metadata)
	if err != nil {
		return nil
	}
	strict, _ := kjson.UnmarshalStrict(data, &metav1.ObjectMeta{}) // shapeMetadata returns the error
	for _, err := range strict {
		var at kjson.FieldError
		if errors.As(err, &at) {
			paths = append(paths, "metadata."+at.FieldPath())
		}
	}
	return paths
}

// shape converts an object as the API server does when it reads one: it removes unknown members,
// nulls and empty metadata, also in the manifests.
func shape(obj map[string]any) (unknown []string, err error) {
	return shapeContent(obj), shapeMetadata(obj)
}

// shapeContent is shape without the object's own metadata.
func shapeContent(obj map[string]any) (unknown []string) {
	unknown = Prune(obj, Schema(), "")
	dropNulls(obj, Schema())
	visit(nil, obj, Schema(), func(_ *field.Path, x any, s *spec.Schema) bool {
		if manifest, ok := x.(map[string]any); ok && extension[bool](s, embedded) {
			_ = shapeMetadata(manifest) // invalid metadata stays unchanged
		}
		return true
	})
	return unknown
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
