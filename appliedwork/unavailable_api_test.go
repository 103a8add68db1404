// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

var corev1ConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// discovered is a fake server with discovery that a test can make fail.
type discovered struct {
	*fakeAPI
	resources func(ctx context.Context, gv string) error
}

func (d *discovered) ServerResourcesForGroupVersionWithContext(
	ctx context.Context, gv string,
) (*metav1.APIResourceList, error) {
	if err := d.resources(ctx, gv); err != nil {
		return nil, err
	}
	return d.fakeAPI.ServerResourcesForGroupVersionWithContext(ctx, gv)
}

// stale is a discovery that lists a group with an unavailable server, like aggregated discovery.
type stale struct{ *discovered }

func (s stale) ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error) {
	list, err := s.discovered.ServerGroupsWithContext(ctx)
	if err == nil {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: "away.example.com"})
	}
	return list, err
}

// aggregated is a discovery that returns all groups but one in one answer.
type aggregated struct {
	*discovered
	except string
	away   map[schema.GroupVersion]error
}

func (a aggregated) GroupsAndMaybeResourcesWithContext(
	ctx context.Context,
) (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, err := a.ServerGroupsWithContext(ctx)
	resources := map[schema.GroupVersion]*metav1.APIResourceList{}
	for text, list := range a.kinds {
		if gv, _ := schema.ParseGroupVersion(text); gv.Group != a.except {
			resources[gv] = list
		}
	}
	return groups, resources, a.away, err
}

// TestCallerOfHangingDiscoveryCanCancel checks that a call that waits for the discovery
// request of another call ends with its own context.
func TestCallerOfHangingDiscoveryCanCancel(t *testing.T) {
	api := newFakeAPI()
	hangs := make(chan struct{})
	d := &discovered{api, func(ctx context.Context, gv string) error {
		if gv == "v1" {
			close(hangs)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: api.client(), Discovery: d})
	if err != nil {
		t.Fatal(err)
	}
	work, err := tracker.Ensure(t.Context(), "w", v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	applier, objects := appliedwork.NewApplier(tracker), []*unstructured.Unstructured{manifest("a", "1")}
	long, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = applier.Apply(long, work, objects, appliedwork.ApplyOptions{})
	}()
	<-hangs
	short, end := context.WithCancel(t.Context())
	end()
	if _, err := applier.Apply(short, work, objects, appliedwork.ApplyOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	cancel()
	<-done
}

// TestUnavailableGroupKeepsEntries checks that an entry stays while the API server of its
// group does not answer, for any time.
func TestUnavailableGroupKeepsEntries(t *testing.T) {
	api := newFakeAPI()
	d := &discovered{api, func(context.Context, string) error { return nil }}
	clock := testingclock.NewFakePassiveClock(time.Now())
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: api.client(), Discovery: stale{d}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	work, err := tracker.Ensure(t.Context(), "w", v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tracker.RecordApplied(t.Context(), work,
		entry(v1alpha1.ResourceIdentifier{Group: "away.example.com", Kind: "Part", Resource: "parts", Name: "p"},
			"1")); err != nil {
		t.Fatal(err)
	}
	pruner := appliedwork.NewPruner(tracker)
	for range 5 {
		clock.SetTime(clock.Now().Add(time.Hour))
		changes, err := pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err == nil || changes.String() != "1 failed" || !strings.Contains(err.Error(), "away.example.com") {
			t.Errorf("%v, %v", changes, err)
		}
	}
}

// TestUnavailableVersionIsUnknown checks that the objects of a version are unknown if its
// API server does not answer, even if other versions of the group are known.
func TestUnavailableVersionIsUnknown(t *testing.T) {
	api := newFakeAPI()
	api.kinds["mix.example.com/v1"] = &metav1.APIResourceList{}
	away := map[schema.GroupVersion]error{{Group: "mix.example.com", Version: "v1alpha1"}: errors.New("stale")}
	d := aggregated{&discovered{api, func(context.Context, string) error { return nil }}, "", away}
	clock := testingclock.NewFakePassiveClock(time.Now())
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Discovery, o.Clock = d, clock })
	collector, pruner := appliedwork.NewCollector(tracker), appliedwork.NewPruner(tracker)
	namespace := object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"mixed"}}`)
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{namespace},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	var blocked *appliedwork.PruneBlockedError
	if changes.String() != "1 blocked" || !errors.As(err, &blocked) ||
		blocked.Reason != appliedwork.BlockReasonNamespaceUnreadable {
		t.Errorf("prune of the Namespace: %v, %v", changes, err)
	}
	part := v1alpha1.ResourceIdentifier{Group: "mix.example.com", Kind: "Part", Resource: "parts", Namespace: "mixed",
		Name: "p"}
	if err := tracker.RecordApplied(t.Context(), work, entry(part, "1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clock.SetTime(clock.Now().Add(24 * time.Hour))
		changes, err := pruner.Prune(t.Context(), work, []*unstructured.Unstructured{namespace}, appliedwork.PruneOptions{})
		if changes.String() != "1 failed" || err == nil {
			t.Errorf("prune of an object that may be of the version: %v, %v", changes, err)
		}
	}
	report, err := collector.Audit(t.Context(), work, appliedwork.AuditOptions{})
	if err != nil || report.Unread["mix.example.com/v1alpha1"] == nil {
		t.Errorf("audit: %+v, %v", report, err)
	}
	survey, err := collector.Survey(t.Context(), appliedwork.SurveyOptions{})
	if err != nil || survey.Unread["mix.example.com/v1alpha1"] == nil {
		t.Errorf("survey: %+v, %v", survey, err)
	}
	gone := work.DeepCopy()
	gone.UID = "gone"
	if err := collector.WaitGone(t.Context(), gone); err == nil ||
		!strings.Contains(err.Error(), "mix.example.com/v1alpha1") {
		t.Errorf("WaitGone: %v", err)
	}
}
