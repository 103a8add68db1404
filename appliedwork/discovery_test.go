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
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
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

func (d *discovered) ServerResourcesForGroupVersionWithContext(ctx context.Context, gv string) (*metav1.APIResourceList, error) {
	if err := d.resources(ctx, gv); err != nil {
		return nil, err
	}
	return d.fakeAPI.ServerResourcesForGroupVersionWithContext(ctx, gv)
}

// TestAuditWithoutAnAggregatedAPI: an unavailable API server does not hide the objects of the
// others.
func TestAuditWithoutAnAggregatedAPI(t *testing.T) {
	api := newFakeAPI()
	api.kinds["metrics.example.com/v1"] = &metav1.APIResourceList{}
	d := &discovered{api, func(_ context.Context, gv string) error {
		if gv == "metrics.example.com/v1" {
			return errors.New("away")
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
	late := manifest("late", "1")
	appliedwork.SetOwnerReference(late, work)
	if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := appliedwork.NewCollector(tracker).Audit(t.Context(), work, appliedwork.AuditOptions{Record: true})
	if err != nil || len(report.Untracked) != 1 || len(report.Unread) != 1 || report.Unread["metrics.example.com/v1"] == nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestDiscoveryThatHangs: a call that waits for an unanswered request ends with its own ctx.
func TestDiscoveryThatHangs(t *testing.T) {
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

// TestGroupThatIsAway: a server that does not answer proves nothing, however long it is away. The
// entry stays.
func TestGroupThatIsAway(t *testing.T) {
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
	if err := tracker.RecordApplied(t.Context(), work, entry(v1alpha1.ResourceIdentifier{Group: "away.example.com", Kind: "Part", Resource: "parts", Name: "p"}, "1")); err != nil {
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

// TestVersionThatIsAway: if the server of a version does not answer, its objects are unknown, even
// if other versions of the group are known.
func TestVersionThatIsAway(t *testing.T) {
	api := newFakeAPI()
	api.kinds["mix.example.com/v1"] = &metav1.APIResourceList{}
	away := map[schema.GroupVersion]error{{Group: "mix.example.com", Version: "v1alpha1"}: errors.New("stale")}
	d := aggregated{&discovered{api, func(context.Context, string) error { return nil }}, "", away}
	clock := testingclock.NewFakePassiveClock(time.Now())
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Discovery, o.Clock = d, clock })
	collector, pruner := appliedwork.NewCollector(tracker), appliedwork.NewPruner(tracker)
	namespace := object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"mixed"}}`)
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{namespace}, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
	var blocked *appliedwork.PruneBlockedError
	if changes.String() != "1 blocked" || !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonNamespaceUnreadable {
		t.Errorf("prune of the Namespace: %v, %v", changes, err)
	}
	part := v1alpha1.ResourceIdentifier{Group: "mix.example.com", Kind: "Part", Resource: "parts", Namespace: "mixed", Name: "p"}
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
	if err := collector.WaitGone(t.Context(), gone); err == nil || !strings.Contains(err.Error(), "mix.example.com/v1alpha1") {
		t.Errorf("WaitGone: %v", err)
	}
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

// TestSurvey: finding the untracked objects of many AppliedWorks needs as many requests as for one
// AppliedWork, even with shards.
func TestSurvey(t *testing.T) {
	api, lists := newFakeAPI(), 0
	api.fail = func(method, path string) error {
		if method == "GET" && strings.HasSuffix(path, "s") {
			lists++
		}
		return nil
	}
	tracker, _ := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes = 1 << 10 })
	collector, late := appliedwork.NewCollector(tracker), map[types.UID]string{}
	for i := range 10 {
		work, err := tracker.Ensure(t.Context(), fmt.Sprint("w-", i), v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		var objects []*unstructured.Unstructured
		for n := range 8 {
			objects = append(objects, manifest(fmt.Sprintf("%d-%d", i, n), "1"))
		}
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		obj := manifest(fmt.Sprint("late-", i), "1")
		appliedwork.SetOwnerReference(obj, work)
		if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		late[work.UID] = obj.GetName()
	}
	lists = 0
	survey, err := collector.Survey(t.Context(), appliedwork.SurveyOptions{})
	if err != nil || len(survey.Unread) > 0 || lists > len(api.kinds)+3 {
		t.Errorf("%v, %v, %d lists", survey, err, lists)
	}
	got := map[types.UID]string{}
	for uid, entries := range survey.Untracked {
		for _, e := range entries {
			got[uid] += e.Name
		}
	}
	if d := cmp.Diff(late, got); d != "" {
		t.Error(d)
	}
}

// aggregated is a discovery that returns all groups but one in one answer.
type aggregated struct {
	*discovered
	except string
	away   map[schema.GroupVersion]error
}

func (a aggregated) GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, err := a.ServerGroupsWithContext(ctx)
	resources := map[schema.GroupVersion]*metav1.APIResourceList{}
	for text, list := range a.kinds {
		if gv, _ := schema.ParseGroupVersion(text); gv.Group != a.except {
			resources[gv] = list
		}
	}
	return groups, resources, a.away, err
}

// TestSurveyWithAggregatedDiscovery: only a group that the aggregated answer lacks needs another
// request, and the metadata of objects is enough.
func TestSurveyWithAggregatedDiscovery(t *testing.T) {
	api, asked := newFakeAPI(), []string{}
	d := aggregated{&discovered{api, func(_ context.Context, gv string) error {
		asked = append(asked, gv)
		return nil
	}}, "rbac.authorization.k8s.io", nil}
	var lists []string
	api.see = func(request *http.Request, _ []byte) {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "s") && !strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			lists = append(lists, request.URL.Path)
		}
	}
	client, err := metadata.NewForConfigAndClient(&rest.Config{Host: "http://memory", QPS: -1}, &http.Client{Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Discovery, o.Metadata = d, client })
	late := manifest("late", "1")
	appliedwork.SetOwnerReference(late, work)
	if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	asked, lists = nil, nil
	survey, err := appliedwork.NewCollector(tracker).Survey(t.Context(), appliedwork.SurveyOptions{})
	if err != nil || len(survey.Unread) > 0 || len(survey.Untracked) != 1 {
		t.Fatalf("%+v, %v", survey, err)
	}
	want := []v1alpha1.AppliedResourceMeta{entry(v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop", Name: "late"}, survey.Untracked[work.UID][0].UID)}
	if d := cmp.Diff(want, survey.Untracked[work.UID]); d != "" || want[0].UID == "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"rbac.authorization.k8s.io/v1"}, asked); d != "" {
		t.Errorf("versions that were asked for: %s", d)
	}
	for _, path := range lists {
		if !strings.HasSuffix(path, "/appliedworks") {
			t.Errorf("%s was read as a whole", path)
		}
	}
	// A kind that the answer lacks may still exist: the answer may be older than the kind.
	api.kinds["v1"].APIResources = append(api.kinds["v1"].APIResources, metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get"}})
	secret := manifest("new", "1")
	secret.SetKind("Secret")
	if changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{secret}, appliedwork.ApplyOptions{}); err != nil {
		t.Errorf("%v, %v", changes, err)
	}
}
