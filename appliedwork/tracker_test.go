// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

type fataler interface {
	Helper()
	Fatal(...any)
}

func newTracker(t fataler, api *fakeAPI, change func(*appliedwork.Options)) (*appliedwork.Tracker, *v1alpha1.AppliedWork) {
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

// TestTrackerIsAMap: the entries behave like a map, whatever two independent trackers record, in
// any number of shards.
func TestTrackerIsAMap(t *testing.T) {
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
			names := rapid.SliceOfN(rapid.SampledFrom(strings.Split("a b c d e f g h i j k l m n o p", " ")), 0, 12).Draw(t, "names")
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

// TestTrackerLimits: objects that do not fit are refused before anything is applied.
func TestTrackerLimits(t *testing.T) {
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

// TestIntentComesFirst: no object is written before the inventory has it, or if the inventory could
// not record it.
func TestIntentComesFirst(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	applier := appliedwork.NewApplier(tracker)
	api.fail = func(method, path string) error {
		if method == "PUT" {
			return errors.New("lost")
		}
		return nil
	}
	if changes, err := applier.Apply(neverEnds, work, []*unstructured.Unstructured{manifest("a", "1")}, appliedwork.ApplyOptions{}); err == nil || len(changes.Entries) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
	api.fail = nil
	if slices.ContainsFunc(api.writes, func(w string) bool { return strings.Contains(w, "configmaps") }) {
		t.Errorf("%v", api.writes)
	}
	if _, err := applier.Apply(neverEnds, work, []*unstructured.Unstructured{manifest("a", "1")}, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /apis/multicluster.x-k8s.io/v1alpha1/appliedworks", "PUT /apis/multicluster.x-k8s.io/v1alpha1/appliedworks/w/status",
		"POST /api/v1/namespaces/shop/configmaps", "PUT /apis/multicluster.x-k8s.io/v1alpha1/appliedworks/w/status",
	}
	if d := cmp.Diff(want, api.writes); d != "" {
		t.Error(d)
	}
}

// TestIntentGrace: an object that was never confirmed and is absent may still be created by a late
// request.
func TestIntentGrace(t *testing.T) {
	api := newFakeAPI()
	clock := testingclock.NewFakePassiveClock(time.Now())
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Clock = clock })
	if err := tracker.RecordIntent(neverEnds, work, configMap("a")); err != nil {
		t.Fatal(err)
	}
	pruner := appliedwork.NewPruner(tracker)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "1 pending"}, {89 * time.Second, "1 pending"}, {2 * time.Second, "1 deleted"}, {0, "nothing to do"}} {
		clock.SetTime(clock.Now().Add(step.after))
		changes, err := pruner.Prune(neverEnds, work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err != nil || changes.String() != step.want {
			t.Errorf("%s: %v, want %s", changes, err, step.want)
		}
	}
}

// TestBadInput: invalid options are refused with the reason.
func TestBadInput(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	options := func(change func(*appliedwork.Options)) error {
		o := appliedwork.Options{Client: api.client(), Discovery: api}
		change(&o)
		_, err := appliedwork.NewTracker(o)
		return err
	}
	apply := func(o appliedwork.ApplyOptions) error {
		_, err := appliedwork.NewApplier(tracker).Apply(neverEnds, work, nil, o)
		return err
	}
	prune := func(o appliedwork.PruneOptions) error {
		_, err := appliedwork.NewPruner(tracker).Prune(neverEnds, work, nil, o)
		return err
	}
	for name, err := range map[string]error{
		"Client":        options(func(o *appliedwork.Options) { o.Client = nil }),
		"Discovery":     options(func(o *appliedwork.Options) { o.Discovery = nil }),
		"MaxShardBytes": options(func(o *appliedwork.Options) { o.MaxShardBytes = 1 }),
		"MaxShards":     options(func(o *appliedwork.Options) { o.MaxShards = -1 }),
		"UnservedGrace": options(func(o *appliedwork.Options) { o.UnservedGrace = -1 }),
		"Adoption":      apply(appliedwork.ApplyOptions{Adoption: "Sometimes"}),
		"Concurrency":   apply(appliedwork.ApplyOptions{Concurrency: 1000}),
		"FieldManager":  apply(appliedwork.ApplyOptions{FieldManager: strings.Repeat("x", 91)}),
		"Propagation":   prune(appliedwork.PruneOptions{Propagation: "Sideways"}),
		"Default":       prune(appliedwork.PruneOptions{Policies: appliedwork.Policies{Default: "Maybe"}}),
		"Orphans":       prune(appliedwork.PruneOptions{Policies: appliedwork.Policies{Orphans: []appliedwork.OrphanRule{{}}}}),
		"ByKey":         prune(appliedwork.PruneOptions{Policies: appliedwork.Policies{ByKey: map[appliedwork.Key]appliedwork.Policy{{}: "x"}}}),
	} {
		if !errors.Is(err, appliedwork.ErrInvalidInput) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
