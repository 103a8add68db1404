// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// evicted is a work with an object on a server. Each of its collectors acts as a new process.
type evicted struct {
	t     *testing.T
	api   *fakeAPI
	work  *v1alpha1.AppliedWork
	clock *testingclock.FakePassiveClock
}

func newEvicted(t *testing.T) *evicted {
	e := &evicted{t: t, api: newFakeAPI(),
		clock: testingclock.NewFakePassiveClock(time.Date(2030, 1, 1, 12, 0, 0, 5e8, time.UTC))}
	tracker, work := newTracker(t, e.api, nil)
	e.work = work
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{manifest("a", "1")},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *evicted) collector() *appliedwork.Collector {
	tracker, err := appliedwork.NewTracker(appliedwork.Options{Client: e.api.client(), Discovery: e.api, Clock: e.clock})
	if err != nil {
		e.t.Fatal(err)
	}
	return appliedwork.NewCollector(tracker)
}

func (e *evicted) evict() *appliedwork.Eviction {
	e.t.Helper()
	eviction, err := e.collector().Evict(e.t.Context(), e.work, appliedwork.EvictOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return eviction
}

func (e *evicted) main() *v1alpha1.AppliedWork {
	e.t.Helper()
	work := &v1alpha1.AppliedWork{}
	for path, obj := range e.api.objects {
		if strings.HasSuffix(path, "/appliedworks/w") {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, work); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	return work
}

// TestEvictionSurvivesRestart calls Evict from another process each time. Only the
// first call starts the eviction.
func TestEvictionSurvivesRestart(t *testing.T) {
	e := newEvicted(t)
	began := e.clock.Now()
	for _, after := range []time.Duration{0, 20 * time.Minute, 59 * time.Minute} {
		e.clock.SetTime(began.Add(after))
		if got := e.evict(); got.Changes != nil || got.Remaining > time.Hour-after ||
			got.Remaining < time.Hour-after-time.Second {
			t.Errorf("after %s: %+v", after, got)
		}
	}
	if err := e.collector().CancelEviction(t.Context(), e.work); err != nil {
		t.Fatal(err)
	}
	if w := e.main(); w.Annotations[v1alpha1.AnnotationEvictionStart] != "" || w.Status.EvictionStartTime != nil ||
		meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionEvicting) != nil {
		t.Errorf("something of the eviction is left: %+v", w)
	}
	e.clock.SetTime(began.Add(2 * time.Hour))
	if got := e.evict(); got.Remaining != time.Hour {
		t.Errorf("after it was cancelled: %+v, want another hour", got)
	}
	e.clock.SetTime(began.Add(3*time.Hour + time.Second))
	if got := e.evict(); got.Changes.String() != "1 deleted" || len(e.api.objects) > 0 {
		t.Errorf("%+v, %d objects are left", got, len(e.api.objects))
	}
	if got := e.evict(); got.Changes == nil || !got.Changes.Done() {
		t.Errorf("eviction of a deleted AppliedWork: %+v", got)
	}
}

// TestEvictionWithFutureStartTimeEnds checks that an eviction that started with a
// clock in the future does not keep the work for ever.
func TestEvictionWithFutureStartTimeEnds(t *testing.T) {
	e := newEvicted(t)
	right := e.clock.Now()
	e.clock.SetTime(right.AddDate(10, 0, 0))
	e.evict()
	e.clock.SetTime(right)
	if got := e.evict(); got.Remaining != time.Hour {
		t.Errorf("%+v, want that it begins anew", got)
	}
	e.clock.SetTime(right.Add(time.Hour))
	if got := e.evict(); got.Changes == nil {
		t.Errorf("%+v, want that it is over", got)
	}
}

// TestEvictionConditionIsSetAfterCrash checks the condition after a crash between the two
// writes of the first call.
func TestEvictionConditionIsSetAfterCrash(t *testing.T) {
	e := newEvicted(t)
	e.api.fail = func(method, _ string) error {
		if method == "PUT" {
			return errors.New("dead")
		}
		return nil
	}
	if _, err := e.collector().Evict(t.Context(), e.work, appliedwork.EvictOptions{}); err == nil {
		t.Error("a write that failed is no error")
	}
	e.api.fail = nil
	e.evict()
	if w := e.main(); w.Status.EvictionStartTime == nil ||
		!meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionEvicting) {
		t.Errorf("%+v", w.Status)
	}
}

// TestEvictRefusesInvalidOptionsAndReleasedWork checks that Evict refuses invalid options at
// once, not after an hour. For a work that is being released it deletes nothing.
func TestEvictRefusesInvalidOptionsAndReleasedWork(t *testing.T) {
	e := newEvicted(t)
	_, err := e.collector().Evict(t.Context(), e.work,
		appliedwork.EvictOptions{Teardown: appliedwork.TeardownOptions{Propagation: "Sideways"}})
	if !errors.Is(err, appliedwork.ErrInvalidInput) || e.main().Annotations[v1alpha1.AnnotationEvictionStart] != "" {
		t.Error(err)
	}
	e.api.fail = func(method, path string) error {
		if method == "PATCH" && strings.Contains(path, "configmaps") {
			return errors.New("not now")
		}
		return nil
	}
	if changes, err := e.collector().Release(t.Context(), e.work, appliedwork.ReleaseOptions{}); err == nil {
		t.Error(changes)
	}
	e.api.fail = nil
	_, err = e.collector().Evict(t.Context(), e.work, appliedwork.EvictOptions{GracePeriod: time.Nanosecond})
	if !errors.Is(err, appliedwork.ErrTerminating) || e.api.count("configmaps") != 1 {
		t.Errorf("%v, %d objects", err, e.api.count("configmaps"))
	}
}
