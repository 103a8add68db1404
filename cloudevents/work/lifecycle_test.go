// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestWorkFromCreateToRemoval follows one work from Create at the source to its removal, as the
// users of both clientsets see it.
func TestWorkFromCreateToRemoval(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		h.complete()
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}})
		onHub := s.informer(workinformers.NewSharedInformerFactory(h.Clientset(), 0))
		onSpoke := s.informer(workinformers.NewSharedInformerFactoryWithOptions(a.Clientset(), 0,
			workinformers.WithNamespace("cluster1")))
		s.settle()
		if !onHub.HasSynced() || !onSpoke.HasSynced() {
			t.Fatalf("informers did not sync: hub %t, spoke %t", onHub.HasSynced(), onSpoke.HasSynced())
		}

		created := h.create("cluster1", newWork("app", "1"))
		if created.UID == "" || created.ResourceVersion == "" || created.Generation != 1 ||
			created.CreationTimestamp.IsZero() {
			t.Errorf("Create did not fill in the system's fields: %+v", created.ObjectMeta)
		}
		s.settle()
		if got := valueOf(t, a.get("app")); got != "1" {
			t.Errorf("the spoke has value %q, want 1", got)
		}
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		a.report("app", "one")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "one" {
			t.Errorf("the hub sees status %q, want one", got)
		}

		h.setValue("cluster1", "app", "2")
		s.settle()
		onA := a.get("app")
		if got := valueOf(t, onA); got != "2" || onA.Generation != 2 {
			t.Errorf("after the update the spoke has value %q, generation %d", got, onA.Generation)
		}
		if diff := cmp.Diff([]string{workv1.ManifestWorkFinalizer}, onA.Finalizers); diff != "" {
			t.Errorf("the agent's finalizer did not survive the update (-want +got):\n%s", diff)
		}

		h.delete("cluster1", "app")
		s.settle()
		if a.get("app").DeletionTimestamp == nil {
			t.Error("the spoke does not see the deletion")
		}
		if got := h.get("cluster1", "app"); got.DeletionTimestamp == nil || len(got.Finalizers) != 1 {
			t.Errorf("the hub's object does not wait for the agent: %+v", got.ObjectMeta)
		}
		a.setFinalizers("app")
		s.settle()
		if _, err := h.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the hub still has the work: %v", err)
		}
		if got := a.names(); len(got) != 0 {
			t.Errorf("the spoke still has %v", got)
		}
		if n, m := len(onHub.GetStore().List()), len(onSpoke.GetStore().List()); n+m != 0 {
			t.Errorf("informers still have %d and %d works", n, m)
		}
	})
}

// TestAgentRestart: an agent without a store receives its works again from the source after a
// restart, and its new statuses reach the source.
func TestAgentRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		first := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		first.report("app", "before")
		s.settle()
		first.kill()
		h.setValue("cluster1", "app", "2")
		h.create("cluster1", newWork("other", "1"))
		s.settle()

		second := s.agent(work.AgentOptions{})
		s.settle()
		if diff := cmp.Diff([]string{"app", "other"}, second.names()); diff != "" {
			t.Fatalf("works after the restart (-want +got):\n%s", diff)
		}
		if got := valueOf(t, second.get("app")); got != "2" {
			t.Errorf("value %q, want 2", got)
		}
		second.report("app", "after")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "after" {
			t.Errorf("the hub sees status %q, want after", got)
		}
	})
}

// TestSourceRestart: works that a restarted source creates again reach the agent. Their last status
// shows at the source immediately, without a new report. Other works are deleted only when the
// inventory is complete.
func TestSourceRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		first := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("kept", "1"))
		first.create("cluster1", newWork("dropped", "1"))
		s.settle()
		a.report("kept", "one")
		before := a.get("kept")
		s.settle()
		first.kill()

		second := s.source(work.SourceOptions{})
		s.settle()
		second.create("cluster1", newWork("kept", "1"))
		s.settle()
		if diff := cmp.Diff([]string{"dropped", "kept"}, a.names()); diff != "" {
			t.Errorf("a work was deleted before the inventory was complete (-want +got):\n%s", diff)
		}
		if got := applied(second.get("cluster1", "kept")); got != "one" {
			t.Errorf("the hub sees status %q, want one", got)
		}
		after := a.get("kept")
		if before.ResourceVersion != after.ResourceVersion || before.UID != after.UID {
			t.Errorf("an equal spec was applied again: %s to %s", before.ResourceVersion, after.ResourceVersion)
		}
		if err := second.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settleProcesses()
		if diff := cmp.Diff([]string{"kept"}, a.names()); diff != "" {
			t.Errorf("works after the inventory (-want +got):\n%s", diff)
		}
	})
}

// TestDeleteReachesAgentThatWasOffline: a deletion reaches an agent that was offline, even if it
// was the cluster's only work.
func TestDeleteReachesAgentThatWasOffline(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.kill()
		h.delete("cluster1", "app")
		s.settle()
		if h.get("cluster1", "app").DeletionTimestamp == nil {
			t.Fatal("the work does not wait for its agent")
		}

		// Without a store, the agent has no record of the work. It receives the work as deleted, to
		// clean up the objects of an earlier process.
		b := s.agent(work.AgentOptions{})
		s.settle()
		got := b.get("app")
		if got.DeletionTimestamp == nil || len(got.Finalizers) != 1 {
			t.Errorf("the work does not appear as one to clean up: %+v", got.ObjectMeta)
		}
		b.setFinalizers("app")
		s.settle()
		if _, err := h.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the hub still has the work: %v", err)
		}
	})
}

// TestWritesDuringOutageArrive: writes of both sides during a broker outage arrive after the
// outage.
func TestWritesDuringOutageArrive(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		s.bus.Disconnect()
		s.settle()
		if h.Healthy() == nil || a.Healthy() == nil {
			t.Error("healthy without a broker")
		}
		h.setValue("cluster1", "app", "2")
		h.setValue("cluster1", "app", "3")
		h.create("cluster1", newWork("new", "1"))
		a.report("app", "offline")
		s.bus.Reconnect()
		s.settle()
		s.settle()
		s.settle()
		if err := h.Healthy(); err != nil {
			t.Error(err)
		}
		if got := valueOf(t, a.get("app")); got != "3" {
			t.Errorf("value %q, want 3", got)
		}
		if diff := cmp.Diff([]string{"app", "new"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
		if got := applied(h.get("cluster1", "app")); got != "offline" {
			t.Errorf("the hub sees status %q, want offline", got)
		}
	})
}

// TestLastFinalizerCausesOneEvent: after the write that removes the last finalizer, watches receive
// a single event: DELETED, with the object without finalizers.
func TestLastFinalizerCausesOneEvent(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		w := newWork("app", "1")
		w.Finalizers = []string{"example.com/mine"}
		h.create("cluster1", w)
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		h.delete("cluster1", "app")
		s.settle()
		expectGone(s, a.works(), func() { a.setFinalizers("app") })
		s.settle()
		expectGone(s, h.works("cluster1"), func() {
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := h.works("cluster1").Patch(t.Context(), "app", types.MergePatchType, patch,
				metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
	})
}

func expectGone(s *scene, c worktyped.ManifestWorkInterface, remove func()) {
	s.t.Helper()
	w, err := c.Watch(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	seen := make(chan []string, 1)
	go func() {
		var events []string
		for e := range w.ResultChan() {
			events = append(events, fmt.Sprint(e.Type, " ", len(e.Object.(*workv1.ManifestWork).Finalizers)))
		}
		seen <- events
	}()
	synctest.Wait()
	remove()
	synctest.Wait()
	w.Stop()
	if diff := cmp.Diff([]string{"ADDED 1", "DELETED 0"}, <-seen); diff != "" {
		s.t.Errorf("events with the number of finalizers (-want +got):\n%s", diff)
	}
}
