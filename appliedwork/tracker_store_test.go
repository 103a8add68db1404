// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestMethodsRefuseOtherObjects checks that each method refuses an argument that is not an
// AppliedWork from Ensure, and writes nothing.
func TestMethodsRefuseOtherObjects(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, manifest(fmt.Sprint("a-", i), "1"))
	}
	applier, pruner, collector := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker),
		appliedwork.NewCollector(tracker)
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
		for what, w := range map[string]*v1alpha1.AppliedWork{"nil": nil, "empty": {}, "without a UID": noUID,
			"a shard": shard} {
			if err := method(w); !errors.Is(err, appliedwork.ErrInvalidInput) {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
	if n := len(api.writes) - before; n > 0 {
		t.Errorf("%d writes: %v", n, api.writes[before:])
	}
}

// TestLoweredShardLimitAllowsDeletion checks that a limit below the current size refuses
// additions, and that existing objects can be deleted.
func TestLoweredShardLimitAllowsDeletion(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, manifest(fmt.Sprint("a-", i), "1"))
	}
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects,
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	tracker, _ = newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes, o.MaxShards = 1<<10, 1 })
	var tooLarge *appliedwork.InventoryTooLargeError
	if err := tracker.RecordIntent(t.Context(), work, configMap("x-1"), configMap("x-2"), configMap("x-3"),
		configMap("x-4")); !errors.As(err, &tooLarge) {
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

// TestForgedShardCountIsRefused checks that a number of shards that no apply has written is an
// error, and does not cause that many requests.
func TestForgedShardCountIsRefused(t *testing.T) {
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
	if _, err := tracker.Entries(ctx, work); err == nil || ctx.Err() != nil ||
		!strings.Contains(err.Error(), v1alpha1.AnnotationShards) {
		t.Errorf("%d requests, %v", requests, err)
	}
}
