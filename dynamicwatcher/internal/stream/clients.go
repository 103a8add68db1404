// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Clients opens streams with existing clients, such as the fakes of client-go: a list, and a watch
// from its version. It uses Metadata if that is set and sufficient.
type Clients struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
}

// lister is what both kinds of clients have.
type lister struct {
	list  func(context.Context, metav1.ListOptions) (list metav1.ListInterface, objects []metav1.Object, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Open implements [Opener].
func (c *Clients) Open(ctx context.Context, t Target, _ string) (Stream, error) {
	l := c.lister(t)
	options := metav1.ListOptions{LabelSelector: t.Selector}
	if t.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name).String()
	}
	var events []Event
	for {
		list, objects, err := l.list(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if t.Name != "" && obj.GetName() != t.Name {
				continue // fakes do not support field selectors
			}
			e, err := clientEvent(watch.Added, obj)
			if err != nil {
				return nil, err
			}
			events = append(events, e)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			options.ResourceVersion = list.GetResourceVersion()
			break
		}
	}
	options.AllowWatchBookmarks = true
	w, err := l.watch(ctx, options)
	if err != nil {
		return nil, err
	}
	events = append(events, Event{Type: Synced, ResourceVersion: options.ResourceVersion})
	return &listed{Stream: &clientStream{ctx: ctx, watch: w, name: t.Name}, events: events}, nil
}

func (c *Clients) lister(t Target) lister {
	if c.Metadata != nil && !t.Whole {
		r := c.Metadata.Resource(t.Resource).Namespace(t.Namespace)
		items := func(l *metav1.PartialObjectMetadataList) []metav1.Object { return pointers(l.Items) }
		return lister{listing(r.List, items), r.Watch}
	}
	r := c.Dynamic.Resource(t.Resource).Namespace(t.Namespace)
	items := func(l *unstructured.UnstructuredList) []metav1.Object { return pointers(l.Items) }
	return lister{listing(r.List, items), r.Watch}
}

func listing[L metav1.ListInterface](
	list func(context.Context, metav1.ListOptions) (L, error), items func(L) []metav1.Object,
) func(context.Context, metav1.ListOptions) (metav1.ListInterface, []metav1.Object, error) {
	return func(ctx context.Context, options metav1.ListOptions) (metav1.ListInterface, []metav1.Object, error) {
		page, err := list(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		return page, items(page), nil
	}
}

func pointers[T any, P interface {
	*T
	metav1.Object
}](items []T) []metav1.Object {
	objects := make([]metav1.Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects
}

type clientStream struct {
	ctx   context.Context
	watch watch.Interface
	name  string
}

// Wait implements [Stream]. It returns immediately: fakes need not save stack.
func (s *clientStream) Wait() error { return nil }

// Next implements [Stream].
func (s *clientStream) Next() (Event, error) {
	for {
		select {
		case <-s.ctx.Done():
			return Event{}, s.ctx.Err()
		case e, ok := <-s.watch.ResultChan():
			if !ok {
				return Event{}, io.EOF
			}
			if e.Type == watch.Error {
				return Event{}, apierrors.FromObject(e.Object)
			}
			event, err := clientEvent(e.Type, e.Object)
			if err != nil || s.name == "" || event.Name == s.name || event.Type == Bookmark {
				return event, err
			}
		}
	}
}

// Close implements [Stream].
func (s *clientStream) Close() { s.watch.Stop() }

// clientEvent makes an event from an object of a client's watch.
func clientEvent(t watch.EventType, obj any) (Event, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && t != watch.Bookmark {
		return objectEvent(string(t), u.DeepCopy()) // fakes keep the objects that they deliver
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		o, _ := obj.(runtime.Object)
		return Event{}, apierrors.FromObject(o)
	}
	return metadataEvent(string(t), m)
}
