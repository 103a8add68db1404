// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Resource returns a client for the objects of a kind, in the version of kind if the API server
// serves it, and otherwise in another. A namespaced kind needs a namespace; for other kinds it is
// ignored. If a get, list or watch fails because the kind is not served, the next call of Resource
// asks discovery again.
//
// The error is an [ErrInvalidObject] for a missing namespace, a [*TypeNotServedError], or an error
// of discovery.
func (t *Tracker) Resource(
	ctx context.Context, kind schema.GroupVersionKind, namespace string,
) (dynamic.ResourceInterface, error) {
	m, err := t.kinds.Resolve(ctx, kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if m.Namespaced && namespace == "" {
		return nil, fmt.Errorf("%w: %s: a namespaced kind needs a metadata.namespace", ErrInvalidObject, kind.GroupKind())
	}
	return resourceClient{t.resource(m, namespace), func(err error) {
		if IsTypeNotServed(err) {
			t.kinds.Forget(kind.Group)
		}
	}}, nil
}

// resourceClient reports the errors of reads to failed.
type resourceClient struct {
	dynamic.ResourceInterface
	failed func(error)
}

func (c resourceClient) Get(
	ctx context.Context, name string, options metav1.GetOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	obj, err := c.ResourceInterface.Get(ctx, name, options, sub...)
	c.failed(err)
	return obj, err
}

func (c resourceClient) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := c.ResourceInterface.List(ctx, options)
	c.failed(err)
	return list, err
}

func (c resourceClient) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := c.ResourceInterface.Watch(ctx, options)
	c.failed(err)
	return w, err
}
