// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package observe reads objects of one kind with a list and a watch.
package observe

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	pageSize = 500
	// blindPage is the size of a page that may have large objects of others.
	blindPage = 50
)

// List calls visit with each object, page by page, and returns the resourceVersion of the list.
func List(
	ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions,
	visit func(*unstructured.Unstructured),
) (version string, err error) {
	options.Limit = cmp.Or(options.Limit, pageSize)
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		version = page.GetResourceVersion()
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return version, nil
		}
	}
}

// Objects lists the objects whose names are keys of names, and then watches them. It calls see with
// the state of each object after the list, and with each later change; nil means that the object
// does not exist. After the list and each change it calls done. It returns nil when done returns
// true, when the watch ends, or when ctx ends during the watch. Otherwise the error is that of a
// request.
func Objects[V any](
	ctx context.Context, client dynamic.ResourceInterface, names map[string]V,
	see func(name string, obj *unstructured.Unstructured), done func() bool,
) error {
	options := metav1.ListOptions{Limit: blindPage}
	if len(names) == 1 {
		for name := range names {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
	}
	listed := make(map[string]bool, len(names))
	version, err := List(ctx, client, options, func(obj *unstructured.Unstructured) {
		if _, ok := names[obj.GetName()]; ok {
			listed[obj.GetName()] = true
			see(obj.GetName(), obj)
		}
	})
	if err != nil {
		return err
	}
	for name := range names {
		if !listed[name] {
			see(name, nil)
		}
	}
	if done() {
		return nil
	}
	options.Limit, options.ResourceVersion, options.AllowWatchBookmarks = 0, version, true
	w, err := client.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	follow(ctx, w, names, see, done)
	return nil
}

func follow[V any](
	ctx context.Context, w watch.Interface, names map[string]V,
	see func(string, *unstructured.Unstructured), done func() bool,
) {
	for !done() {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.ResultChan():
			obj, is := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				return
			}
			if !is || event.Type == watch.Bookmark {
				continue
			}
			name := obj.GetName()
			if _, ok := names[name]; !ok {
				continue
			}
			if event.Type == watch.Deleted {
				obj = nil
			}
			see(name, obj)
		}
	}
}
