// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestReadsWaitForVersion: a read at a replica that lags waits for the version of a write at another
// replica. After 3 s it returns the error that clients repeat.
func TestReadsWaitForVersion(t *testing.T) {
	inScene(t, func(s *scene) {
		memory := work.NewMemoryStore()
		first := s.replicaOf(memory)
		late := &distantStore{memory, always(0), always(0), always(200 * time.Millisecond)} // for each batch
		second := s.replicaOf(late)
		s.settle()
		first.create("cluster1", newWork("w", "1"))
		s.settle()
		works := second.works("cluster1")
		for _, exact := range []bool{false, true} {
			options := metav1.ListOptions{ResourceVersion: first.setValue("cluster1", "w", "2").ResourceVersion}
			if exact {
				options.ResourceVersionMatch = metav1.ResourceVersionMatchExact
			}
			if list, err := works.List(s.t.Context(), options); err != nil || valueOf(t, &list.Items[0]) != "2" {
				t.Errorf("list: %v, %v", list, err)
			}
		}
		version := first.setValue("cluster1", "w", "3").ResourceVersion
		if got, err := works.Get(s.t.Context(), "w", metav1.GetOptions{ResourceVersion: version}); err != nil ||
			valueOf(t, got) != "3" || got.ResourceVersion != version {
			t.Errorf("get: %v, %v", got, err)
		}
		version = first.setValue("cluster1", "w", "4").ResourceVersion
		if e := s.firstEvent(second, version, func() { first.setValue("cluster1", "w", "5") }); e.Type != watch.Modified {
			t.Errorf("the watch begins with %v", e)
		}

		late.behind = always(10 * time.Second)
		version = first.setValue("cluster1", "w", "6").ResourceVersion
		began := time.Now()
		_, err := works.Get(s.t.Context(), "w", metav1.GetOptions{ResourceVersion: version})
		delay, retry := apierrors.SuggestsClientDelay(err)
		if took := time.Since(began); !apierrors.IsTimeout(err) || took != 3*time.Second || !retry || delay != 1 {
			t.Errorf("get of a version that does not come: %v after %s, want Timeout after 3 s", err, took)
		}
	})
}

// firstEvent watches a replica from a version, calls then, and returns the first event.
func (s *scene) firstEvent(h *hub, version string, then func()) watch.Event {
	s.t.Helper()
	w, err := h.works("cluster1").Watch(s.t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	then()
	return <-w.ResultChan()
}

// TestVersionsAcrossReplicas: a watch continues at another replica from a version that is stored. A
// version that a leader has shown but could not store is too old after the takeover.
func TestVersionsAcrossReplicas(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyShared()
		first := s.replicaOf(store)
		time.Sleep(time.Minute) // the clock of a replica that starts later does not matter
		second := s.replicaOf(store.MemoryStore)
		s.settle()
		stored := first.create("cluster1", newWork("w", "1")).ResourceVersion
		next := first.setValue("cluster1", "w", "2").ResourceVersion
		s.settle()
		if e := s.firstEvent(second, stored, func() {}); e.Type != watch.Modified || versionOf(e) != next {
			t.Errorf("the continued watch begins with %v, want version %s", e, next)
		}

		release := store.stall()
		unstored := make(chan error, 1)
		go func() { unstored <- patchLabel(s.t.Context(), first, "w", "unstored") }()
		s.settle()
		shown := first.get("cluster1", "w").ResourceVersion
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		release()
		if err := <-unstored; !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the write that is not stored: %v", err)
		}
		s.settle()
		sameWorks(t, first, second)
		for _, h := range []*hub{first, second} {
			if got := h.get("cluster1", "w"); got.ResourceVersion != next || got.Labels["k"] != "" {
				t.Errorf("the work has version %s and labels %v, want version %s", got.ResourceVersion, got.Labels, next)
			}
			e := s.firstEvent(h, shown, func() {})
			if e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("a watch from version %s, which is not stored, begins with %v", shown, e)
			}
		}
		last := second.setValue("cluster1", "w", "3").ResourceVersion
		s.settle()
		if e := s.firstEvent(second, next, func() {}); e.Type != watch.Modified || versionOf(e) != last {
			t.Errorf("the watch at the new leader begins with %v, want version %s", e, last)
		}
	})
}

func versionOf(e watch.Event) string {
	if obj, ok := e.Object.(metav1.Object); ok {
		return obj.GetResourceVersion()
	}
	return ""
}
