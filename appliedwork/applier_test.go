// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// servedWhenWritten makes the fake server serve the kind of a CRD after the CRD is written. It
// returns a count of the reads of that kind.
func servedWhenWritten(api *fakeAPI, versions ...string) *int {
	reads := 0
	api.fail = func(method, path string) error {
		if method == "GET" && strings.Contains(path, "/parts") {
			reads++
		}
		if method != "GET" && strings.Contains(path, "customresourcedefinitions") {
			for _, v := range versions {
				api.kinds["example.com/"+v] = &metav1.APIResourceList{
					APIResources: []metav1.APIResource{{Name: "parts", Kind: "Part", Namespaced: true}},
				}
			}
		}
		return nil
	}
	return &reads
}

// TestObjectsOfNewKindAreListed checks that the objects of a kind that is unknown
// until its CRD is applied are then listed, not read one by one.
func TestObjectsOfNewKindAreListed(t *testing.T) {
	api := newFakeAPI()
	crd, part := withParts(api)
	delete(api.kinds, "example.com/v1")
	reads := servedWhenWritten(api, "v1")
	tracker, work := newTracker(t, api, nil)
	objects := []*unstructured.Unstructured{crd}
	for i := range 300 {
		p := part.DeepCopy()
		p.SetName(fmt.Sprint("p-", i))
		objects = append(objects, p)
	}
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
	if err != nil || changes.String() != "301 created" || *reads > 10 {
		t.Errorf("%v, %v, %d reads", changes, err, *reads)
	}
}

// TestObjectsOfFailedCRDFail checks that the objects of a CRD that fails also fail at once,
// with the reason.
func TestObjectsOfFailedCRDFail(t *testing.T) {
	api := newFakeAPI()
	crd, part := withParts(api)
	delete(api.kinds, "example.com/v1")
	tracker, work := newTracker(t, api, nil)
	api.fail = func(method, path string) error {
		if method == "POST" && strings.Contains(path, "customresourcedefinitions") {
			return errors.New("refused")
		}
		return nil
	}
	began := time.Now()
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{part, crd},
		appliedwork.ApplyOptions{})
	var notServed *appliedwork.TypeNotServedError
	if changes.String() != "2 failed" || !errors.As(changes.Entries[0].Err, &notServed) ||
		!strings.Contains(changes.Entries[0].Err.Error(), "parts.example.com") {
		t.Errorf("%v, %v", changes, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestCRDAndObjectsOfNewVersion checks that a work can add a version to its CRD and
// objects of that version in one apply. A version that is not served is an error.
func TestCRDAndObjectsOfNewVersion(t *testing.T) {
	api := newFakeAPI()
	crd, part := withParts(api)
	tracker, work := newTracker(t, api, nil)
	applier := appliedwork.NewApplier(tracker)
	if _, err := applier.Apply(t.Context(), work, []*unstructured.Unstructured{crd, part},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	part.SetAPIVersion("example.com/v2")
	changes, err := applier.Apply(t.Context(), work, []*unstructured.Unstructured{crd, part}, appliedwork.ApplyOptions{})
	var notServed *appliedwork.TypeNotServedError
	if !errors.As(err, &notServed) || notServed.Version != "v2" || notServed.Served != "v1" ||
		changes.Count(appliedwork.ActionFailed) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
	servedWhenWritten(api, "v1", "v2")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions = append(versions, map[string]any{"name": "v2", "served": true, "storage": false})
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	changes, err = applier.Apply(t.Context(), work, []*unstructured.Unstructured{crd, part}, appliedwork.ApplyOptions{})
	if err != nil || changes.Count(appliedwork.ActionFailed, appliedwork.ActionPending) != 0 {
		t.Errorf("%v, %v", changes, err)
	}
}

// TestKindIsDiscoveredBeforeItIsServed checks an apply while discovery lists a version and
// the API server does not answer requests for its objects yet.
func TestKindIsDiscoveredBeforeItIsServed(t *testing.T) {
	api := newFakeAPI()
	crd, part := withParts(api)
	tracker, work := newTracker(t, api, nil)
	applier := appliedwork.NewApplier(tracker)
	if _, err := applier.Apply(t.Context(), work, []*unstructured.Unstructured{crd, part},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	servedWhenWritten(api, "v1", "v2")
	refusals := 0
	api.away = func(path string) bool {
		if !strings.Contains(path, "/v2/") || refusals == 3 {
			return false
		}
		refusals++
		return true
	}
	part.SetAPIVersion("example.com/v2")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions = append(versions, map[string]any{"name": "v2", "served": true, "storage": false})
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	changes, err := applier.Apply(t.Context(), work, []*unstructured.Unstructured{crd, part}, appliedwork.ApplyOptions{})
	if err != nil || changes.Count(appliedwork.ActionFailed, appliedwork.ActionPending) != 0 || refusals != 3 {
		t.Errorf("%v, %v, %d refusals", changes, err, refusals)
	}
}
