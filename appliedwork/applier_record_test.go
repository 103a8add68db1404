// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestIntentIsRecordedBeforeWrite checks that no object is written before the inventory has
// it, or if the inventory could not record it.
func TestIntentIsRecordedBeforeWrite(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	applier := appliedwork.NewApplier(tracker)
	api.fail = func(method, path string) error {
		if method == "PUT" {
			return errors.New("lost")
		}
		return nil
	}
	if changes, err := applier.Apply(neverEnds, work, []*unstructured.Unstructured{manifest("a", "1")},
		appliedwork.ApplyOptions{}); err == nil || len(changes.Entries) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
	api.fail = nil
	if slices.ContainsFunc(api.writes, func(w string) bool { return strings.Contains(w, "configmaps") }) {
		t.Errorf("%v", api.writes)
	}
	if _, err := applier.Apply(neverEnds, work, []*unstructured.Unstructured{manifest("a", "1")},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /apis/multicluster.x-k8s.io/v1alpha1/appliedworks",
		"PUT /apis/multicluster.x-k8s.io/v1alpha1/appliedworks/w/status",
		"POST /api/v1/namespaces/shop/configmaps", "PUT /apis/multicluster.x-k8s.io/v1alpha1/appliedworks/w/status",
	}
	if d := cmp.Diff(want, api.writes); d != "" {
		t.Error(d)
	}
}
