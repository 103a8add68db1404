// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/clientset"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// maxBody is the API server's limit of a request's body, in bytes.
const maxBody = 3 << 20

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := workv1.Install(s); err != nil {
		panic(err) // depends on no input
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{},
		&metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}()

// Codecs encode works, errors, and the discovery documents of old clients.
var Codecs = serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON())

// codecs encode typed objects, and decode to unstructured objects in the form of the CRD.
var codecs = crdSerializer{Codecs}

type crdSerializer struct{ serializer.CodecFactory }

// SupportedMediaTypes leaves out protobuf, as for all custom resources.
func (s crdSerializer) SupportedMediaTypes() (out []runtime.SerializerInfo) {
	for _, info := range s.CodecFactory.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeProtobuf {
			out = append(out, info)
		}
	}
	return out
}

// DecoderToVersion implements [runtime.NegotiatedSerializer].
func (crdSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return decoder{d}
}

// decoder shapes the objects that its delegate decodes: it removes members that the CRD does not
// have, and sets defaults. A strict delegate returns the removed members in a strict error.
type decoder struct{ runtime.Decoder }

func (d decoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	target, ok := into.(*unstructured.Unstructured)
	if !ok {
		return d.decode(data, defaults, into)
	}
	// If the decoder fails, target keeps its kind, which is part of the error.
	decoded := &unstructured.Unstructured{}
	obj, gvk, err := d.decode(data, defaults, decoded)
	if obj == runtime.Object(decoded) {
		target.Object = decoded.Object
		obj = target
	}
	return obj, gvk, err
}

func (d decoder) decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	var strict []error
	if e, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
		strict = e.Errors()
	} else if err != nil {
		return nil, gvk, err
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, gvk, err
	}
	unknown, err := crd.Shape(u)
	if err != nil {
		return nil, gvk, err
	}
	if s, ok := d.Decoder.(interface{ IsStrict() bool }); ok && s.IsStrict() {
		for _, path := range unknown {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
		if len(strict) > 0 {
			return obj, gvk, runtime.NewStrictDecodingError(strict)
		}
	}
	return obj, gvk, nil
}

// typer returns the kinds of unstructured objects and of those in the scheme.
type typer struct{ *runtime.Scheme }

func (t typer) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		return []schema.GroupVersionKind{u.GetObjectKind().GroupVersionKind()}, false, nil
	}
	return t.Scheme.ObjectKinds(obj)
}

// newScope returns the configuration of the API server's handlers for the resource or its status.
func newScope(s *storage, a authorizer.UnconditionalAuthorizer) (*handlers.RequestScope, error) {
	fields, err := crd.FieldManager(string(s.subresource))
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{Group: workv1.GroupName, Version: "v1", Kind: clientset.Kind.Kind}
	return &handlers.RequestScope{
		Namer:                    handlers.ContextBasedNaming{Namer: meta.NewAccessor()},
		Serializer:               codecs,
		ParameterCodec:           runtime.NewParameterCodec(scheme),
		StandardSerializers:      codecs.SupportedMediaTypes(),
		Creater:                  crd.Objects{}, //nolint:misspell // its name
		Convertor:                crd.Objects{},
		Defaulter:                crd.Objects{},
		Typer:                    typer{scheme},
		UnsafeConvertor:          crd.Objects{},
		Authorizer:               a,
		TableConvertor:           s.TableConvertor,
		FieldManager:             fields,
		Resource:                 kind.GroupVersion().WithResource(clientset.Resource.Resource),
		Kind:                     kind,
		Subresource:              string(s.subresource),
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		HubGroupVersion:          kind.GroupVersion(),
		MaxRequestBodyBytes:      maxBody,
		EquivalentResourceMapper: runtime.NewEquivalentResourceRegistry(),
	}, nil
}

// allow permits everything: a process needs no permission for its own source.
type allow struct{}

func (allow) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}
