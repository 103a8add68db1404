// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestBundleLateDeletion: a deletion that arrives late does not delete the next work of that name,
// even after a restart of the source and the agent. The Store keeps the version of a removed work,
// and the next work continues above it.
func TestBundleLateDeletion(t *testing.T) {
	inScene(t, func(s *scene) {
		options := bundleSource
		options.Store = work.NewMemoryStore()
		h, a := s.source(options), s.agent(bundleAgent)
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		specs := s.record("sourceevents")
		h.delete("cluster1", "app")
		s.settle()
		late := specs.last()
		a.setFinalizers("app")
		s.settle()
		h.kill()
		a.kill()
		h, a = s.source(options), s.agent(bundleAgent)
		s.settle()
		h.create("cluster1", newWork("app", "2"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		publish(s, late)
		s.settle()
		if got := a.get("app"); got.DeletionTimestamp != nil || valueOf(t, got) != "2" {
			t.Errorf("the agent has value %q, deleted %v", valueOf(t, got), got.DeletionTimestamp)
		}
	})
}

// TestBundleDeletedByOlderProcess: a work that an older process of the source deletes is created
// again, even if the agent had confirmed it. The agent reports the version of the deletion, which
// is lower.
func TestBundleDeletedByOlderProcess(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(bundleSource), s.agent(bundleAgent)
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		specs := s.record("sourceevents")
		h.delete("cluster1", "app")
		s.settle()
		deletion := specs.last()
		a.setFinalizers("app")
		s.settle()
		h.create("cluster1", newWork("app", "2"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		a.report("app", "2")
		s.settle()
		deletion.Event.SetTime(time.Now()) // as if the older process sent it now
		publish(s, deletion)
		s.settle()
		if a.get("app").DeletionTimestamp == nil {
			s.t.Fatal("the agent has not taken the deletion")
		}
		a.setFinalizers("app")
		s.settle()
		if got := a.get("app"); got.DeletionTimestamp != nil || valueOf(t, got) != "2" {
			t.Errorf("the agent has value %q, deleted %v", valueOf(t, got), got.DeletionTimestamp)
		}
	})
}

// TestBundleRecordOfRemovedWorkExpires: the Store drops the record of a removed work when the work
// is created again, or after a day.
func TestBundleRecordOfRemovedWorkExpires(t *testing.T) {
	inScene(t, func(s *scene) {
		options, store := bundleSource, work.NewMemoryStore()
		options.Store = store
		h, a := s.source(options), s.agent(bundleAgent)
		past := func() []string {
			var keys []string
			if err := store.Load(t.Context(), func(key string, _ []byte) error {
				if strings.HasPrefix(key, "past/") {
					keys = append(keys, key)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return keys
		}
		for _, name := range []string{"app", "again"} {
			h.create("cluster1", newWork(name, "1"))
			s.settle()
			h.delete("cluster1", name)
			s.settle()
			a.setFinalizers(name)
			s.settle()
		}
		if keys := past(); len(keys) != 2 {
			t.Errorf("the store has %v of the two works that are gone", keys)
		}
		h.create("cluster1", newWork("again", "2"))
		if keys := past(); len(keys) != 1 {
			t.Errorf("the store has %v, and one of the works is there again", keys)
		}
		time.Sleep(25 * time.Hour)
		h.kill()
		s.source(options)
		s.settle()
		if keys := past(); len(keys) != 0 {
			t.Errorf("after a day the store has %v", keys)
		}
	})
}

// TestBundleAbandonedWorkIsDeletedLater: a source that gave up a deletion requests the works of its
// agents again. Only with their answers can it delete the work if the cluster reconnects before the
// source.
func TestBundleAbandonedWorkIsDeletedLater(t *testing.T) {
	inScene(t, func(s *scene) {
		l := &link{Transport: s.bus.Transport()}
		options := bundleSource
		options.SourceID = "hub"
		h, a := s.sourceOn(l, options), s.agent(bundleAgent)
		if err := h.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("kept", "1"))
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "1")
		s.settle()
		l.setCut(true)
		h.delete("cluster1", "app")
		if err := h.Forget(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
		s.settle()
		l.setCut(false)
		s.settleProcesses()
		if diff := cmp.Diff([]string{"kept"}, a.names()); diff != "" {
			t.Errorf("works of the agent (-want +got):\n%s", diff)
		}
	})
}

// TestBundleAbandonedWorkHeldByFinalizer is TestBundleAbandonedWorkIsDeletedLater for a work that a
// finalizer on the source holds. The deletion is lost. A later status shows that the work exists,
// and the source deletes it. After the finalizer is removed, the source would have no record of the
// work.
func TestBundleAbandonedWorkHeldByFinalizer(t *testing.T) {
	inScene(t, func(s *scene) {
		l := &link{Transport: s.bus.Transport()}
		options := bundleSource
		options.SourceID = "hub"
		h, a := s.sourceOn(l, options), s.agent(bundleAgent)
		if err := h.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		obj := newWork("app", "1")
		obj.Finalizers = []string{"hub.example.com/own"}
		h.create("cluster1", obj)
		s.settle()
		a.report("app", "1")
		s.settle()
		l.setCut(true)
		h.delete("cluster1", "app")
		if err := h.Forget(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
		s.settle()
		var lossless atomic.Bool
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if lossless.Load() || m.Event.Extensions()["deletiontimestamp"] == nil {
				deliver(m)
			}
		})
		l.setCut(false)
		time.Sleep(15 * time.Second)
		lossless.Store(true)
		a.report("app", "2")
		s.settle()
		if names := a.names(); len(names) > 0 {
			t.Errorf("the agent keeps %v", names)
		}
	})
}

// TestBundleDeletionOfUnknownWork: an agent answers a deletion of a work that it does not have, so
// that the hub can forget the work. In events of Maestro, the name of a work is its resource ID. A
// deletion without a name is the answer of another source to a list, and has no answer.
func TestBundleDeletionOfUnknownWork(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answered bool
	}{{"d88afb58-b1af-5b27-ac17-b03668488334", true}, {"", false}} {
		inScene(t, func(s *scene) {
			const id = "d88afb58-b1af-5b27-ac17-b03668488334"
			wire, a := s.tap(), s.agent(bundleAgent)
			s.settle()
			now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
			topic, event, err := codec.ManifestBundle.Encode(&codec.Spec{
				Header:  codec.Header{ID: "1", Source: "maestro", Cluster: "cluster1", Time: now.Time},
				WorkRef: codec.WorkRef{ResourceID: id, Version: 1}, DeletionTimestamp: &now,
				Work: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: tc.name}},
			})
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: event})
			s.settle()
			for _, name := range a.names() {
				a.setFinalizers(name)
			}
			s.settle()
			if got := len(take[*codec.Status](wire)) > 0; got != tc.answered {
				t.Errorf("name %q: answered is %v", tc.name, got)
			}
		})
	}
}
