// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// TestPanicDegradesManifest checks that a panic in the rules or the manifest of one object does not
// affect the status of other objects.
func TestPanicDegradesManifest(t *testing.T) {
	b := builder(t)
	for name, change := range map[string]func(*spoke.Outcome){
		"rules": func(o *spoke.Outcome) {
			o.Config.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
				JsonPaths: []workv1.JsonPath{{Name: "a", Version: "v9", Path: ".a"}}}}
			o.InVersion = func(context.Context, string) (*unstructured.Unstructured, error) { panic("secret") }
		},
		"manifest": func(o *spoke.Outcome) { o.Err = &guard.PanicError{Doing: "preparing the manifest"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			next, _ := b.Next(t.Context(), w, result(outcome("bad", change), outcome("good", nil)), start)
			if c := meta.FindStatusCondition(next.Conditions, workv1.WorkDegraded); c == nil ||
				c.Status != metav1.ConditionTrue || c.Message != "1 of 2 resources are degraded" {
				t.Errorf("the work is %+v", c)
			}
			for i, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
				c := meta.FindStatusCondition(next.ResourceStatus.Manifests[i].Conditions, workv1.ManifestDegraded)
				if c == nil || c.Status != want || want == metav1.ConditionTrue && c.Reason != status.ReasonPanicked {
					t.Errorf("manifest %d is %+v", i, c)
				}
			}
		})
	}
}
