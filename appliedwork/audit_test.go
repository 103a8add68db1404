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

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestAuditWithUnavailableAPIServer checks that an unavailable API server does not
// hide the objects of the others.
func TestAuditWithUnavailableAPIServer(t *testing.T) {
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
	if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), late,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := appliedwork.NewCollector(tracker).Audit(t.Context(), work, appliedwork.AuditOptions{Record: true})
	if err != nil || len(report.Untracked) != 1 || len(report.Unread) != 1 ||
		report.Unread["metrics.example.com/v1"] == nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestSurveyNeedsFewRequests checks that a survey of many AppliedWorks, even with shards, needs as
// many requests as one of a single AppliedWork.
func TestSurveyNeedsFewRequests(t *testing.T) {
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
		work, err := tracker.Ensure(t.Context(), fmt.Sprint("w-", i),
			v1alpha1.AppliedWorkSpec{WorkName: "w", WorkNamespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		var objects []*unstructured.Unstructured
		for n := range 8 {
			objects = append(objects, manifest(fmt.Sprintf("%d-%d", i, n), "1"))
		}
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects,
			appliedwork.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		obj := manifest(fmt.Sprint("late-", i), "1")
		appliedwork.SetOwnerReference(obj, work)
		if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), obj,
			metav1.CreateOptions{}); err != nil {
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

// TestSurveyWithAggregatedDiscovery checks that only a group that the aggregated answer lacks
// needs another request, and that the metadata of objects is enough.
func TestSurveyWithAggregatedDiscovery(t *testing.T) {
	api, asked := newFakeAPI(), []string{}
	d := aggregated{&discovered{api, func(_ context.Context, gv string) error {
		asked = append(asked, gv)
		return nil
	}}, "rbac.authorization.k8s.io", nil}
	var lists []string
	api.see = func(request *http.Request, _ []byte) {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "s") &&
			!strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			lists = append(lists, request.URL.Path)
		}
	}
	client, err := metadata.NewForConfigAndClient(&rest.Config{Host: "http://memory", QPS: -1},
		&http.Client{Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.Discovery, o.Metadata = d, client })
	late := manifest("late", "1")
	appliedwork.SetOwnerReference(late, work)
	if _, err := api.client().Resource(corev1ConfigMaps).Namespace("shop").Create(t.Context(), late,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	asked, lists = nil, nil
	survey, err := appliedwork.NewCollector(tracker).Survey(t.Context(), appliedwork.SurveyOptions{})
	if err != nil || len(survey.Unread) > 0 || len(survey.Untracked) != 1 {
		t.Fatalf("%+v, %v", survey, err)
	}
	want := []v1alpha1.AppliedResourceMeta{entry(v1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap",
		Resource: "configmaps", Namespace: "shop", Name: "late"}, survey.Untracked[work.UID][0].UID)}
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
	api.kinds["v1"].APIResources = append(api.kinds["v1"].APIResources,
		metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get"}})
	secret := manifest("new", "1")
	secret.SetKind("Secret")
	if changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{secret},
		appliedwork.ApplyOptions{}); err != nil {
		t.Errorf("%v, %v", changes, err)
	}
}
