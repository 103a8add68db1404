// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// events are the AppliedWork, type, reason and text of recorded events.
type events []string

func (e *events) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	work := object.(*v1alpha1.AppliedWork)
	*e = append(*e, fmt.Sprintf("%s/%s: %s %s: %s", work.Name, work.Spec.WorkName, kind, reason,
		fmt.Sprintf(format, args...)))
}

// TestNameCollisionEvent checks that the existing AppliedWork gets the event if two works need the
// same name, because there is no other.
func TestNameCollisionEvent(t *testing.T) {
	var got events
	tracker, _ := newTracker(t, newFakeAPI(), func(o *appliedwork.Options) { o.Events = &got })
	_, err := tracker.Ensure(t.Context(), "w", v1alpha1.AppliedWorkSpec{WorkName: "another", WorkNamespace: "n"})
	if !errors.Is(err, appliedwork.ErrNameCollision) {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != "w/w: Warning NameCollision: "+err.Error() {
		t.Errorf("%q", got)
	}
}

func condition(t *testing.T, api *fakeAPI, kind string) *metav1.Condition {
	t.Helper()
	e := &evicted{t: t, api: api}
	return meta.FindStatusCondition(e.main().Status.Conditions, kind)
}

// TestRefusalSetsCondition checks that a refused call sets its condition to False, and
// does not leave the condition of the last successful call.
func TestRefusalSetsCondition(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, func(o *appliedwork.Options) { o.MaxShardBytes, o.MaxShards = 1<<10, 1 })
	applier, pruner := appliedwork.NewApplier(tracker), appliedwork.NewPruner(tracker)
	a := manifest("a", "1")
	apply := func(objects ...*unstructured.Unstructured) error {
		_, err := applier.Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
		return err
	}
	many := []*unstructured.Unstructured{a}
	for _, name := range strings.Split("bcdefghijk", "") {
		many = append(many, manifest(name, "1"))
	}
	for _, test := range []struct {
		condition, reason string
		call              func() error
	}{
		{v1alpha1.ConditionApplied, "Duplicate", func() error { return apply(a, a) }},
		{v1alpha1.ConditionApplied, "InventoryTooLarge", func() error { return apply(many...) }},
		{v1alpha1.ConditionPruned, "EmptyDesired", func() error {
			_, err := pruner.Prune(t.Context(), work, nil, appliedwork.PruneOptions{})
			return err
		}},
	} {
		if err := apply(a); err != nil {
			t.Fatal(err)
		}
		if _, err := pruner.Prune(t.Context(), work, []*unstructured.Unstructured{a},
			appliedwork.PruneOptions{}); err != nil {
			t.Fatal(err)
		}
		if c := condition(t, api, test.condition); c == nil || c.Status != metav1.ConditionTrue {
			t.Fatalf("%s: %+v", test.condition, c)
		}
		err := test.call()
		if c := condition(t, api, test.condition); err == nil || c.Status != metav1.ConditionFalse ||
			c.Reason != test.reason || c.Message == "" {
			t.Errorf("%v: %+v, want reason %s", err, c, test.reason)
		}
		before := len(api.writes)
		_ = test.call()
		if n := len(api.writes) - before; n > 0 {
			t.Errorf("%s again: %v", test.reason, api.writes[before:])
		}
	}
}

// TestLongMessageIsTruncated checks that a truncated message is valid text, so that the stored
// message equals the compared message.
func TestLongMessageIsTruncated(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	for _, name := range []string{strings.Repeat("ü", 600), "x" + strings.Repeat("ü", 600)} {
		nameless := object(`{"kind":"Part","metadata":{"name":%q}}`, name) // no apiVersion
		apply := func() {
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{nameless},
				appliedwork.ApplyOptions{}); !errors.Is(err, appliedwork.ErrInvalidObject) {
				t.Fatal(err)
			}
		}
		apply()
		before := len(api.writes)
		apply()
		if n := len(api.writes) - before; n > 0 {
			t.Errorf("%d writes for the same refusal", n)
		}
	}
}
