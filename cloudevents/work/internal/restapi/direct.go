// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Direct receives the works of a list or a watch of the same process. The response is encoded
// without them, so they are not decoded either.
type Direct struct {
	// List is the answer to a list, or nil. Its receiver may change it.
	List *workv1.ManifestWorkList
	// Watch has the events of a watch, or is nil. It ends when the response ends.
	Watch watch.Interface
}

type directKey struct{}

// WithDirect returns the context of a request. d receives its answer, before the header of the
// response is sent.
func WithDirect(ctx context.Context, d *Direct) context.Context {
	return context.WithValue(ctx, directKey{}, d)
}

// reader is the storage of lists and watches.
type reader struct{ *storage }

// List implements [rest.Lister].
func (r reader) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.storage.List(ctx, o)
	d, ok := ctx.Value(directKey{}).(*Direct)
	if !ok || err != nil {
		return obj, err
	}
	list, ok := obj.(*workv1.ManifestWorkList)
	if !ok {
		return obj, nil
	}
	d.List = list.DeepCopy()
	return &workv1.ManifestWorkList{ListMeta: list.ListMeta, Items: []workv1.ManifestWork{}}, nil
}

// Watch implements [rest.Watcher].
func (r reader) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	w, err := r.storage.Watch(ctx, o)
	d, ok := ctx.Value(directKey{}).(*Direct)
	if !ok || err != nil {
		return w, err
	}
	d.Watch = w
	return silent{w}, nil
}

// silent is a watch without events: another receiver takes them.
type silent struct{ watch.Interface }

// ResultChan implements [watch.Interface].
func (silent) ResultChan() <-chan watch.Event { return nil }
