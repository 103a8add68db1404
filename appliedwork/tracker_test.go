// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

type fataler interface {
	Helper()
	Fatal(...any)
}

func newTracker(
	t fataler, api *fakeAPI, change func(*appliedwork.Options),
) (*appliedwork.Tracker, *v1alpha1.AppliedWork) {
	t.Helper()
	opts := appliedwork.Options{Client: api.client(), Discovery: api}
	if change != nil {
		change(&opts)
	}
	tracker, err := appliedwork.NewTracker(opts)
	if err != nil {
		t.Fatal(err)
	}
	work, err := tracker.Ensure(neverEnds, "w", v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return tracker, work
}

// TestTrackersMergeEntries checks that the entries behave like a map for all records of two
// independent trackers, in any number of shards.
func TestTrackersMergeEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		api := newFakeAPI()
		small := func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 }
		first, work := newTracker(t, api, small)
		second, _ := newTracker(t, api, small)
		want := map[string]types.UID{}
		check := func() {
			for _, tracker := range []*appliedwork.Tracker{first, second} {
				entries, err := tracker.Entries(neverEnds, work)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]types.UID{}
				for _, e := range entries {
					got[e.Name] = e.UID
				}
				if d := cmp.Diff(want, got); d != "" || len(entries) != len(want) {
					t.Fatal(d)
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			tracker := rapid.SampledFrom([]*appliedwork.Tracker{first, second}).Draw(t, "tracker")
			names := rapid.SliceOfN(rapid.SampledFrom(strings.Split("a b c d e f g h i j k l m n o p", " ")), 0, 12).Draw(t,
				"names")
			uid := types.UID(fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "uid")))
			var err error
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				var ids []v1alpha1.ResourceIdentifier
				for _, name := range names {
					ids = append(ids, configMap(name))
					if _, known := want[name]; !known { // a recorded UID stays
						want[name] = ""
					}
				}
				err = tracker.RecordIntent(neverEnds, work, ids...)
			case 1:
				var entries []v1alpha1.AppliedResourceMeta
				for _, name := range names {
					entries = append(entries, entry(configMap(name), uid))
					want[name] = uid
				}
				err = tracker.RecordApplied(neverEnds, work, entries...)
			case 2:
				var entries []v1alpha1.AppliedResourceMeta
				for _, name := range names {
					entries = append(entries, entry(configMap(name), uid))
					if want[name] == uid {
						delete(want, name)
					}
				}
				err = tracker.Forget(neverEnds, work, entries...)
			}
			if err != nil {
				t.Fatal(err)
			}
			check()
		}
	})
}

// TestTooManyObjectsAreRefused checks that objects that do not fit are refused before any
// write.
func TestTooManyObjectsAreRefused(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes, o.MaxShards = 1<<10, 2 })
	var objects []*unstructured.Unstructured
	for i := range 100 {
		objects = append(objects, manifest(fmt.Sprint("a", i), "1"))
	}
	_, err := appliedwork.NewApplier(tracker).Apply(neverEnds, work, objects, appliedwork.ApplyOptions{})
	var tooLarge *appliedwork.InventoryTooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Entries != 100 || tooLarge.Limit != 2 {
		t.Errorf("%v", err)
	}
	if entries, err := tracker.Entries(neverEnds, work); len(entries) != 0 || err != nil || len(api.objects) != 1 {
		t.Errorf("%d entries, %d objects, %v", len(entries), len(api.objects), err)
	}
}
