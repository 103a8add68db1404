// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestNotAnAppliedWork: each method refuses an argument that is not an AppliedWork from Ensure, and
// writes nothing.
func TestNotAnAppliedWork(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, manifest(fmt.Sprint("a-", i), "1"))
	}
	applier, pruner, collector := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker), appliedwork.NewCollector(tracker)
	if _, err := applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	shard := &v1alpha1.AppliedWork{}
	for path, obj := range api.objects {
		if strings.Contains(path, "-shard-1-") {
			u := &unstructured.Unstructured{Object: obj}
			shard.Name, shard.UID = u.GetName(), u.GetUID()
		}
	}
	if shard.Name == "" {
		t.Fatal("there is no shard")
	}
	noUID := work.DeepCopy()
	noUID.UID = ""
	methods := map[string]func(*v1alpha1.AppliedWork) error{
		"RecordIntent":  func(w *v1alpha1.AppliedWork) error { return tracker.RecordIntent(t.Context(), w, configMap("x")) },
		"RecordApplied": func(w *v1alpha1.AppliedWork) error { return tracker.RecordApplied(t.Context(), w) },
		"Forget":        func(w *v1alpha1.AppliedWork) error { return tracker.Forget(t.Context(), w) },
		"Entries":       func(w *v1alpha1.AppliedWork) error { _, err := tracker.Entries(t.Context(), w); return err },
		"Apply": func(w *v1alpha1.AppliedWork) error {
			_, err := applier.Apply(t.Context(), w, objects, appliedwork.ApplyOptions{})
			return err
		},
		"Prune": func(w *v1alpha1.AppliedWork) error {
			_, err := pruner.Prune(t.Context(), w, nil, appliedwork.PruneOptions{AllowEmpty: true})
			return err
		},
		"Teardown": func(w *v1alpha1.AppliedWork) error {
			_, err := collector.Teardown(t.Context(), w, appliedwork.TeardownOptions{})
			return err
		},
		"Release": func(w *v1alpha1.AppliedWork) error {
			_, err := collector.Release(t.Context(), w, appliedwork.ReleaseOptions{})
			return err
		},
		"Evict": func(w *v1alpha1.AppliedWork) error {
			_, err := collector.Evict(t.Context(), w, appliedwork.EvictOptions{})
			return err
		},
		"CancelEviction": func(w *v1alpha1.AppliedWork) error { return collector.CancelEviction(t.Context(), w) },
		"Audit": func(w *v1alpha1.AppliedWork) error {
			_, err := collector.Audit(t.Context(), w, appliedwork.AuditOptions{})
			return err
		},
		"WaitGone": func(w *v1alpha1.AppliedWork) error { return collector.WaitGone(t.Context(), w) },
	}
	before := len(api.writes)
	for name, method := range methods {
		for what, w := range map[string]*v1alpha1.AppliedWork{"nil": nil, "empty": {}, "without a UID": noUID, "a shard": shard} {
			if err := method(w); !errors.Is(err, appliedwork.ErrInvalidInput) {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
	if n := len(api.writes) - before; n > 0 {
		t.Errorf("%d writes: %v", n, api.writes[before:])
	}
}

// TestLoweredLimit: with a limit below the current size, additions are refused, and existing
// objects can be deleted.
func TestLoweredLimit(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, manifest(fmt.Sprint("a-", i), "1"))
	}
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	tracker, _ = newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes, o.MaxShards = 1<<10, 1 })
	var tooLarge *appliedwork.InventoryTooLargeError
	if err := tracker.RecordIntent(t.Context(), work, configMap("x-1"), configMap("x-2"), configMap("x-3"), configMap("x-4")); !errors.As(err, &tooLarge) {
		t.Errorf("more: %v", err)
	}
	changes, err := appliedwork.NewPruner(tracker).Prune(t.Context(), work, objects[:10], appliedwork.PruneOptions{})
	if err != nil || changes.String() != "2 deleted" {
		t.Errorf("prune: %v, %v", changes, err)
	}
	changes, err = appliedwork.NewCollector(tracker).Teardown(t.Context(), work, appliedwork.TeardownOptions{})
	if err != nil || !changes.Done() || len(api.objects) > 0 {
		t.Errorf("teardown: %v, %v", changes, err)
	}
}

// TestTooManyShards: a number of shards that no apply has written is an error, and does not cause
// that many requests.
func TestTooManyShards(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	annotations := api.objects["/apis/multicluster.x-k8s.io/v1alpha1/appliedworks/w"]["metadata"].(map[string]any)
	annotations["annotations"] = map[string]any{v1alpha1.AnnotationShards: "2000000000"}
	requests := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	api.see = func(*http.Request, []byte) {
		if requests++; requests > 100 {
			cancel()
		}
	}
	if _, err := tracker.Entries(ctx, work); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), v1alpha1.AnnotationShards) {
		t.Errorf("%d requests, %v", requests, err)
	}
}

// TestHandWrittenObjects: a Go program may put values into an object that no decoder produces.
func TestHandWrittenObjects(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	made := manifest("made", "1")
	made.Object["count"] = 3
	made.Object["metadata"].(map[string]any)["labels"] = map[string]string{"app": "shop"}
	broken := manifest("broken", "1")
	broken.Object["count"] = math.NaN()
	objects := []*unstructured.Unstructured{made, broken, manifest("plain", "1")}
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
	if !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), "broken") || changes.String() != "2 created, 1 failed" {
		t.Errorf("%v, %v", changes, err)
	}
}

// TestInvalidObjects: the errors of invalid objects help to correct them.
func TestInvalidObjects(t *testing.T) {
	for _, test := range []struct{ name, object, want string }{
		{"a list", `{"apiVersion":"v1","kind":"List","items":[]}`, "each of its items"},
		{"a typed list", `{"apiVersion":"v1","kind":"ConfigMapList","items":[]}`, "each of its items"},
		{"two slashes", `{"apiVersion":"apps/v1/v2","kind":"Deployment","metadata":{"name":"web"}}`, "apps/v1/v2"},
		{"metadata is a string", `{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}`, "no metadata.name"},
	} {
		_, err := appliedwork.Identify(object("%s", test.object))
		if !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
}

// TestObjectOptions: the manager and the force of one object apply only to that object, within one
// call.
func TestObjectOptions(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	objects := []*unstructured.Unstructured{manifest("a", "1"), manifest("b", "1")}
	key, err := appliedwork.Identify(objects[1])
	if err != nil {
		t.Fatal(err)
	}
	var managers []string
	api.see = func(r *http.Request, _ []byte) {
		if manager := r.URL.Query().Get("fieldManager"); strings.Contains(r.URL.Path, "/configmaps") {
			managers = append(managers, strings.TrimSuffix(manager, string(work.UID))+r.URL.Query().Get("force"))
		}
	}
	options := appliedwork.ApplyOptions{Concurrency: 1, FieldManager: "all", ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {FieldManager: "one", Force: true}}}
	apply := func() {
		t.Helper()
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, options); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	objects[0], objects[1] = manifest("a", "2"), manifest("b", "2")
	apply()
	var got []string
	for _, m := range managers {
		if m != "" && !slices.Contains(got, m) {
			got = append(got, m)
		}
	}
	if want := []string{"all-", "one-", "all-false", "one-true"}; !slices.Equal(got, want) {
		t.Errorf("the managers are %q, want %q", got, want)
	}
	managers, options.ByKey[key], objects[1] = nil, appliedwork.ObjectOptions{Force: true}, manifest("b", "3")
	apply()
	if !slices.Contains(managers, "all-true") {
		t.Errorf("without a manager of its own, an object has that of all: %q", managers)
	}
	options.ByKey[key] = appliedwork.ObjectOptions{FieldManager: strings.Repeat("x", 91)}
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, options); !errors.Is(err, appliedwork.ErrInvalidInput) {
		t.Errorf("a manager of 91 characters: %v", err)
	}
}

// TestHashOfHash: an object that was read from the cluster and is applied again is unchanged,
// although it then has a hash.
func TestHashOfHash(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	obj := manifest("a", "1")
	obj.SetAnnotations(map[string]string{"mine": "1"})
	hashes := map[string]bool{}
	for range 4 {
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{obj}, appliedwork.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		live, err := api.client().Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(obj.GetNamespace()).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj.SetAnnotations(live.GetAnnotations())
		hashes[live.GetAnnotations()[v1alpha1.AnnotationAppliedHashPrefix+string(work.UID)]] = true
	}
	if len(hashes) != 1 || hashes[""] {
		t.Errorf("the hashes are %v", hashes)
	}
}
