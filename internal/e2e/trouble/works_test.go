// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// newWork returns a work with one ConfigMap that holds value.
func newWork(name, value string) *workv1.ManifestWork {
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"value":%q}}`, name, value)
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}},
		}},
	}
}

// valueOf returns the value in the work's ConfigMap. A work that was first received during its
// deletion has no value.
func valueOf(obj *workv1.ManifestWork) string {
	var cm struct{ Data map[string]string }
	if len(obj.Spec.Workload.Manifests) == 0 {
		return ""
	}
	if err := json.Unmarshal(obj.Spec.Workload.Manifests[0].Raw, &cm); err != nil {
		return err.Error()
	}
	return cm.Data["value"]
}

// applied returns the message of the condition Applied, or "".
func applied(obj *workv1.ManifestWork) string {
	for _, c := range obj.Status.Conditions {
		if c.Type == workv1.WorkApplied {
			return c.Message
		}
	}
	return ""
}

// degraded returns the reason of the condition Degraded, if it is true.
func degraded(obj *workv1.ManifestWork) string {
	for _, c := range obj.Status.Conditions {
		if c.Type == workv1.WorkDegraded && c.Status == metav1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

func (h *hub) create(cluster, name, value string) *workv1.ManifestWork {
	h.t.Helper()
	out, err := h.works(cluster).Create(h.t.Context(), newWork(name, value), metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *hub) set(cluster, name, value string) {
	h.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		obj := h.get(cluster, name)
		obj.Spec = newWork(name, value).Spec
		_, err := h.works(cluster).Update(h.t.Context(), obj, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) delete(cluster, name string) {
	h.t.Helper()
	if err := h.works(cluster).Delete(h.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) get(cluster, name string) *workv1.ManifestWork {
	h.t.Helper()
	obj, err := h.works(cluster).Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return obj
}

func (h *hub) list() []workv1.ManifestWork {
	h.t.Helper()
	list, err := h.works(metav1.NamespaceAll).List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return list.Items
}

func (h *hub) inventoryComplete() {
	h.t.Helper()
	if err := h.InventoryComplete(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// state returns a short form of the works in a clientset: "name=value/status", with a "-" before a
// work that is being deleted.
func state(t *testing.T, works worktyped.ManifestWorkInterface) string {
	t.Helper()
	list, err := works.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(list.Items))
	for i := range list.Items {
		w := &list.Items[i]
		entry := w.Name + "=" + valueOf(w) + "/" + applied(w)
		if reason := degraded(w); reason != "" {
			entry += "!" + reason
		}
		if w.DeletionTimestamp != nil {
			entry = "-" + entry
		}
		out = append(out, entry)
	}
	slices.Sort(out)
	return join(out)
}

func join(works []string) string { return strings.Join(works, " ") }

// shows waits until a clientset shows a state.
func shows(t *testing.T, what string, works worktyped.ManifestWorkInterface, want string) {
	t.Helper()
	eventually(t, what, func() string {
		if got := state(t, works); got != want {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// report sets the condition Applied with a message.
func (a *spoke) report(name, message string) {
	a.t.Helper()
	if err := report(a, name, message); err != nil {
		a.t.Fatal(err)
	}
}

func report(a *spoke, name, message string) error {
	patch := fmt.Sprintf(
		`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, message)
	return a.patch(name, patch, "status")
}

func (a *spoke) patch(name, data string, subresources ...string) error {
	_, err := a.works().Patch(a.t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{},
		subresources...)
	return err
}

// apply runs a work controller on the agent until the agent ends. It sets the cleanup finalizer,
// reports each work's value as its status, and removes the finalizer of deleted works.
func (a *spoke) apply() {
	a.t.Helper()
	w, err := a.works().Watch(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			obj, ok := e.Object.(*workv1.ManifestWork)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			if err := a.applyOne(obj); err != nil && a.t.Context().Err() == nil &&
				!apierrors.IsNotFound(err) && !apierrors.IsServiceUnavailable(err) {
				a.t.Errorf("%s: %s: %v", a.cluster, obj.Name, err)
			}
		}
	}()
	a.t.Cleanup(func() {
		w.Stop()
		closed(a.t, "the end of the controller", ended)
	})
}

func (a *spoke) applyOne(obj *workv1.ManifestWork) error {
	switch {
	case obj.DeletionTimestamp != nil:
		return a.patch(obj.Name, `{"metadata":{"finalizers":null}}`)
	case !slices.Contains(obj.Finalizers, workv1.ManifestWorkFinalizer):
		return a.patch(obj.Name, `{"metadata":{"finalizers":["`+workv1.ManifestWorkFinalizer+`"]}}`)
	case !strings.HasPrefix(applied(obj), valueOf(obj)): // tests add to the status
		return report(a, obj.Name, valueOf(obj))
	}
	return nil
}

// spy records the events of a watch that starts with the existing works.
type spy struct {
	t      *testing.T
	works  worktyped.ManifestWorkInterface
	mu     sync.Mutex
	events []seen
}

// seen is one event of a watch.
type seen struct {
	kind             watch.EventType
	name             string
	value, status    string
	degraded         string
	version          string
	deleting         bool
	finalizers       int
	generation       int64
	initialEventsEnd bool
}

func (e seen) String() string {
	return fmt.Sprintf("%s %s=%s/%s", e.kind, e.name, e.value, e.status)
}

// spyOn watches until the test ends.
func spyOn(t *testing.T, works worktyped.ManifestWorkInterface, options ...metav1.ListOptions) *spy {
	t.Helper()
	w, err := works.Watch(t.Context(), first(options))
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{t: t, works: works}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			s.take(e)
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		closed(t, "the end of a watch", ended)
	})
	return s
}

func (s *spy) take(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := e.Object.(*workv1.ManifestWork)
	if !ok {
		s.t.Errorf("the watch has ended: %+v", e.Object)
		return
	}
	s.events = append(s.events, seen{
		kind: e.Type, name: obj.Name, value: valueOf(obj), status: applied(obj), degraded: degraded(obj),
		version: obj.ResourceVersion, deleting: obj.DeletionTimestamp != nil, finalizers: len(obj.Finalizers),
		generation: obj.Generation, initialEventsEnd: obj.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	})
}

// now waits until the watch has sent the current state of the clientset.
func (s *spy) now() *spy {
	s.t.Helper()
	eventually(s.t, "the watch", func() string {
		list, err := s.works.List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		want, got := map[string]string{}, map[string]string{}
		for i := range list.Items {
			want[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		for _, e := range s.of("") {
			if got[e.name] = e.version; e.kind == watch.Deleted {
				delete(got, e.name)
			}
		}
		return unless(maps.Equal(want, got), fmt.Sprintf("%v, want %v", got, want))
	})
	return s
}

// of returns the events of works with a name that begins with prefix.
func (s *spy) of(prefix string) []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []seen
	for _, e := range s.events {
		if strings.HasPrefix(e.name, prefix) {
			out = append(out, e)
		}
	}
	return out
}

// values returns the values of a work since its last addition, in the order of their first event.
func (s *spy) values(name string) []string {
	return s.course(name, func(e seen) string { return e.value })
}

// statuses returns the statuses of a work in the same way.
func (s *spy) statuses(name string) []string {
	return s.course(name, func(e seen) string { return e.status })
}

// course returns the states of one aspect of a work, without consecutive duplicates.
func (s *spy) course(name string, aspect func(seen) string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.events {
		if e.name != name {
			continue
		}
		if now := aspect(e); len(out) == 0 || out[len(out)-1] != now {
			out = append(out, now)
		}
	}
	return out
}
