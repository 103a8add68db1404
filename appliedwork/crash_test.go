// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// life is a process: it applies objects, changes and prunes some, and ends the work.
func life(api *fakeAPI) error {
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: api.client(), Discovery: api,
		MaxShardBytes: 1 << 10, IntentGrace: time.Nanosecond})
	if err != nil {
		return err
	}
	work, err := tracker.Ensure(neverEnds, "w", v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for i := range 8 { // two shards
		objects = append(objects, manifest(fmt.Sprint("object-", i), "1"))
	}
	one := appliedwork.ApplyOptions{Concurrency: 1}
	_, applied := appliedwork.NewApplier(tracker).Apply(neverEnds, work, objects, one)
	objects[0] = manifest("object-0", "2")
	_, changed := appliedwork.NewApplier(tracker).Apply(neverEnds, work, objects[:5], one)
	pruner := appliedwork.NewPruner(tracker)
	_, pruned := pruner.Prune(neverEnds, work, objects[:5], appliedwork.PruneOptions{Concurrency: 1})
	return errors.Join(applied, changed, pruned)
}

func (f *fakeAPI) count(part string) int {
	n := 0
	for path := range f.objects {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

// TestCrashAtEachRequestLeavesNothing ends a process at each of its requests, executed or
// not. The inventory has all remaining objects, so the next process can prune and tear down
// everything.
func TestCrashAtEachRequestLeavesNothing(t *testing.T) {
	whole := newFakeAPI()
	requests := 0
	whole.fail = func(string, string) error { requests++; return nil }
	if err := life(whole); err != nil || whole.count("configmaps") != 5 {
		t.Fatal(err, whole.count("configmaps"))
	}
	t.Logf("%d requests", requests)
	for n := 1; n <= requests; n++ {
		for _, executed := range []bool{false, true} {
			api, seen := newFakeAPI(), 0
			died := errors.New("dead")
			api.fail = func(string, string) error {
				if seen++; seen > n || seen == n && !executed {
					return died
				}
				return nil
			}
			api.lose = func() error {
				if seen == n {
					return died
				}
				return nil
			}
			_ = life(api)
			api.fail, api.lose = nil, nil
			tracker, work := newTracker(t, api, func(o *appliedwork.Options) {
				o.IntentGrace, o.MaxShardBytes = time.Nanosecond,
					1<<10
			})
			pruner, changes := appliedwork.NewPruner(tracker), (*appliedwork.ChangeSet)(nil)
			for range 2 { // an unconfirmed object is checked twice
				var err error
				if changes, err = pruner.Prune(neverEnds, work, nil, appliedwork.PruneOptions{AllowEmpty: true}); err != nil {
					t.Fatal(err)
				}
			}
			if left := api.count("configmaps"); left > 0 || !changes.Done() {
				t.Errorf("request %d, executed %v: %d objects are left, %v", n, executed, left, changes.Entries)
			}
			if _, err := appliedwork.NewCollector(tracker).Teardown(neverEnds, work,
				appliedwork.TeardownOptions{}); err != nil || len(api.objects) > 0 {
				t.Errorf("request %d, executed %v: teardown leaves %d objects, %v", n, executed, len(api.objects), err)
			}
		}
	}
}
