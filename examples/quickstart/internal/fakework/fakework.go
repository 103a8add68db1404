// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakework is a hub for tests: the generated fake clientset with generations and
// finalizers, which the plain fake does not have.
package fakework

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/testing"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"
)

// New returns a clientset with works that have a UID and a generation. A deleted work stays until
// its finalizers are removed.
func New() *workfake.Clientset {
	cs := workfake.NewSimpleClientset() //nolint:staticcheck // this package has no other
	h := &hub{tracker: cs.Tracker(), plain: testing.ObjectReaction(cs.Tracker())}
	cs.PrependReactor("create", "manifestworks", h.create)
	cs.PrependReactor("update", "manifestworks", h.write)
	cs.PrependReactor("patch", "manifestworks", h.write)
	cs.PrependReactor("delete", "manifestworks", h.delete)
	return cs
}

// hub has the reactors. They run with the mutex of the fake, so its writes are atomic.
type hub struct {
	tracker testing.ObjectTracker
	plain   testing.ReactionFunc
	created int
}

var resource = schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}

func (h *hub) create(action testing.Action) (bool, runtime.Object, error) {
	w := action.(testing.CreateAction).GetObject().(*workv1.ManifestWork)
	h.created++
	w.UID = types.UID(fmt.Sprintf("uid-%d", h.created))
	w.Generation = 1
	return h.plain(action)
}

// write executes an update or a patch, and then sets the fields that a server would set.
func (h *hub) write(action testing.Action) (bool, runtime.Object, error) {
	name := ""
	switch a := action.(type) {
	case testing.PatchAction:
		name = a.GetName()
	case testing.UpdateAction:
		name = a.GetObject().(*workv1.ManifestWork).Name
	}
	before, err := h.get(action.GetNamespace(), name)
	if err != nil {
		return true, nil, err
	}
	if handled, _, err := h.plain(action); !handled || err != nil {
		return handled, nil, err
	}
	after, err := h.get(action.GetNamespace(), name)
	if err != nil {
		return true, nil, err
	}
	after.UID, after.Generation, after.DeletionTimestamp = before.UID, before.Generation, before.DeletionTimestamp
	if !sameSpec(before, after) {
		after.Generation++
	}
	if after.DeletionTimestamp != nil && len(after.Finalizers) == 0 {
		return true, after, h.tracker.Delete(resource, after.Namespace, after.Name)
	}
	return true, after, h.tracker.Update(resource, after, after.Namespace)
}

func (h *hub) delete(action testing.Action) (bool, runtime.Object, error) {
	w, err := h.get(action.GetNamespace(), action.(testing.DeleteAction).GetName())
	if err != nil || len(w.Finalizers) == 0 {
		return h.plain(action)
	}
	if w.DeletionTimestamp == nil {
		now := metav1.NewTime(time.Now())
		w.DeletionTimestamp = &now
		w.Generation++ // as an API server does
	}
	return true, nil, h.tracker.Update(resource, w, w.Namespace)
}

func (h *hub) get(namespace, name string) (*workv1.ManifestWork, error) {
	obj, err := h.tracker.Get(resource, namespace, name)
	if err != nil {
		return nil, err
	}
	return obj.(*workv1.ManifestWork).DeepCopy(), nil
}

// sameSpec compares the content: a patch changes the spaces and the order of fields in manifests.
func sameSpec(a, b *workv1.ManifestWork) bool {
	content := func(w *workv1.ManifestWork) (v any) {
		raw, err := json.Marshal(w.Spec)
		if err == nil {
			err = json.Unmarshal(raw, &v)
		}
		if err != nil {
			panic(err) // the work of the test is not JSON
		}
		return v
	}
	return reflect.DeepEqual(content(a), content(b))
}
