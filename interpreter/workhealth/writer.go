// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// written is a version of a work.
type written struct {
	uid        types.UID
	generation int64
}

// Writing returns a client for works that reports writes to the tracker. Otherwise an outdated work
// of the informer could be mistaken for the current one: see [Work].Behind.
func (t *Tracker) Writing(works worktyped.ManifestWorksGetter) worktyped.ManifestWorksGetter {
	return &writer{ManifestWorksGetter: works, tracker: t}
}

// writer is a client for all works, and for those of one namespace.
type writer struct {
	worktyped.ManifestWorksGetter
	worktyped.ManifestWorkInterface
	tracker   *Tracker
	namespace string
}

// ManifestWorks implements [worktyped.ManifestWorksGetter].
func (w *writer) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return &writer{nil, w.ManifestWorksGetter.ManifestWorks(namespace), w.tracker, namespace}
}

// Create records the created work.
func (w *writer) Create(
	ctx context.Context, work *workv1.ManifestWork, o metav1.CreateOptions,
) (*workv1.ManifestWork, error) {
	return w.note(w.ManifestWorkInterface.Create(ctx, work, o))
}

// Update records the updated work.
func (w *writer) Update(
	ctx context.Context, work *workv1.ManifestWork, o metav1.UpdateOptions,
) (*workv1.ManifestWork, error) {
	return w.note(w.ManifestWorkInterface.Update(ctx, work, o))
}

// Delete removes the record: the informer may never receive the work.
func (w *writer) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	err := w.ManifestWorkInterface.Delete(ctx, name, o)
	if err == nil {
		t := w.tracker
		t.mu.Lock()
		delete(t.written, w.namespace+"/"+name)
		t.mu.Unlock()
	}
	return err
}

func (w *writer) note(work *workv1.ManifestWork, err error) (*workv1.ManifestWork, error) {
	if err != nil {
		return work, err
	}
	t, key := w.tracker, work.Namespace+"/"+work.Name
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.works[key]; k == nil || k.work.UID != work.UID || k.work.Generation < work.Generation {
		t.written[key] = written{work.UID, work.Generation}
	}
	return work, nil
}
