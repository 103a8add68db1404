// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// TestTrouble checks that a problem of a work is reported while it exists, with the time at which
// it began.
func TestTrouble(t *testing.T) {
	b := builder(t)
	for _, tt := range []struct {
		kind, want string
		status     metav1.ConditionStatus
		change     func(*workv1.ManifestWork, *spoke.Result)
	}{
		{status.DeleteOptionUsable, "ttlSecondsAfterFinished is -1: must be 0 or more", "False",
			func(w *workv1.ManifestWork, _ *spoke.Result) {
				ttl := int64(-1)
				w.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: &ttl}
			}},
		{status.ObjectsWatched, "ConfigMap, Secret: grant it watch", "False",
			func(_ *workv1.ManifestWork, r *spoke.Result) { r.Unwatched = []string{"ConfigMap", "Secret"} }},
		{status.Contested, "1 of 1 resources are changed by others", "True",
			func(_ *workv1.ManifestWork, r *spoke.Result) { r.Outcomes[0].Contested = true }},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			w := &workv1.ManifestWork{}
			serve := func(change func(*workv1.ManifestWork, *spoke.Result), now time.Time) {
				r := result(outcome("a", nil))
				w.Spec = workv1.ManifestWorkSpec{}
				if change != nil {
					change(w, r)
				}
				w.Status, _ = b.Next(t.Context(), w, r, now)
			}
			serve(nil, start)
			if c := meta.FindStatusCondition(w.Status.Conditions, tt.kind); c != nil {
				t.Fatalf("%+v", c)
			}
			serve(tt.change, start.Add(time.Minute))
			before := w.Status.DeepCopy()
			serve(tt.change, start.Add(2*time.Minute))
			if diff := cmp.Diff(*before, w.Status); diff != "" {
				t.Error(diff)
			}
			c := meta.FindStatusCondition(w.Status.Conditions, tt.kind)
			if c == nil || c.Status != tt.status || !strings.Contains(c.Message, tt.want) ||
				!c.LastTransitionTime.Time.Equal(start.Add(time.Minute)) {
				t.Errorf("%+v", c)
			}
			if is := meta.IsStatusConditionTrue(w.Status.ResourceStatus.Manifests[0].Conditions, status.Contested); is != (tt.kind == status.Contested) {
				t.Errorf("the manifest is contested: %v", is)
			}
			serve(nil, start.Add(3*time.Minute))
			if c := meta.FindStatusCondition(w.Status.Conditions, tt.kind); c != nil ||
				meta.FindStatusCondition(w.Status.ResourceStatus.Manifests[0].Conditions, status.Contested) != nil {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestPorts checks that the message of an error does not change with the local port of its
// connection.
func TestPorts(t *testing.T) {
	b, w := builder(t), &workv1.ManifestWork{}
	serve := func(text string) workv1.ManifestWorkStatus {
		next, _ := b.Next(t.Context(), w, result(outcome("a", func(o *spoke.Outcome) { o.Err = errors.New(text) })), start)
		return next
	}
	for _, texts := range [][2]string{
		{"read tcp 127.0.0.1:54321->10.0.0.1:443: connection reset by peer",
			"read tcp 127.0.0.1:54322->10.0.0.1:443: connection reset by peer"},
		{"write tcp [::1]:54321->[2001:db8::1]:443: broken pipe", "write tcp [::1]:1->[2001:db8::1]:443: broken pipe"},
	} {
		w.Status = serve(texts[0])
		if diff := cmp.Diff(w.Status, serve(texts[1])); diff != "" {
			t.Error(diff)
		}
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); !strings.Contains(c.Message,
		"write tcp [2001:db8::1]:443: broken pipe") {
		t.Error(c.Message)
	}
}

// TestScrapeType checks that an unknown scrape type is reported, and that the values are read
// anyway.
func TestScrapeType(t *testing.T) {
	w := &workv1.ManifestWork{}
	w.Status, _ = builder(t).Next(t.Context(), w, result(outcome("a", func(o *spoke.Outcome) {
		o.Config.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "name", Path: ".metadata.name"}}}}
		o.Config.BadScrapeType = "Push"
	})), start)
	m := w.Status.ResourceStatus.Manifests[0]
	if c := meta.FindStatusCondition(m.Conditions, status.StatusFeedbackSynced); c.Status != "False" ||
		!strings.Contains(c.Message, `feedbackScrapeType "Push" is unknown: write Watch or Poll`) ||
		len(m.StatusFeedbacks.Values) != 1 {
		t.Errorf("%+v, %+v", c, m.StatusFeedbacks)
	}
}
