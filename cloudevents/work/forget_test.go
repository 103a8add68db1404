// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestAbandonEndsOneDeletion: Abandon ends the deletion of one work without its agent, and the
// deletion of other works continues. An agent that connects later with the abandoned work must
// delete it.
func TestAbandonEndsOneDeletion(t *testing.T) {
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for name, store := range map[string]work.Store{"in memory": nil, "with a store": work.NewMemoryStore()} {
			t.Run(profile.Name()+"/"+name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					h := s.source(work.SourceOptions{Profile: profile, Store: store})
					h.complete()
					a := s.agent(work.AgentOptions{Profile: profile, Sources: []string{"hub"}, Store: work.NewMemoryStore()})
					for _, name := range []string{"given-up", "deleted", "kept"} {
						h.create("cluster1", newWork(name, "1"))
					}
					s.settle()
					a.setFinalizers("given-up", "example.com/apply")
					a.setFinalizers("deleted", "example.com/apply")
					s.settle()
					if err := h.Abandon(s.t.Context(), "cluster1", "kept"); !apierrors.IsConflict(err) {
						t.Errorf("a work that is not deleted: %v", err)
					}
					for _, at := range [][2]string{{"cluster1", "none"}, {"cluster2", "kept"}} {
						if err := h.Abandon(s.t.Context(), at[0], at[1]); !apierrors.IsNotFound(err) {
							t.Errorf("the unknown work %v: %v", at, err)
						}
					}
					s.bus.Disconnect()
					s.settle()
					h.delete("cluster1", "given-up")
					h.delete("cluster1", "deleted")
					s.settle()
					if err := h.Abandon(s.t.Context(), "cluster1", "given-up"); err != nil {
						t.Errorf("a work that is being deleted: %v", err)
					}
					if _, err := h.works("cluster1").Get(s.t.Context(), "given-up", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
						t.Errorf("the abandoned work is there: %v", err)
					}
					if h.get("cluster1", "deleted").DeletionTimestamp == nil || h.get("cluster1", "kept").DeletionTimestamp != nil {
						t.Error("other works are not as they were")
					}
					s.bus.Reconnect()
					s.settleProcesses()
					if a.get("given-up").DeletionTimestamp == nil {
						t.Error("the agent keeps the abandoned work")
					}
					a.setFinalizers("given-up")
					a.setFinalizers("deleted")
					s.settle()
					s.reconnect()
					if names := a.names(); len(names) != 1 || len(h.list("cluster1").Items) != 1 {
						t.Errorf("the agent has %v, the source %d works", names, len(h.list("cluster1").Items))
					}
				})
			})
		}
	}
}

// TestAbandonWithoutAgent: a work for a cluster that never had an agent can be abandoned, but
// finalizers of other controllers still hold it. Without them its name is free again, and an agent
// that connects later receives only the new work.
func TestAbandonWithoutAgent(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		s.settle()
		obj := newWork("app", "1")
		obj.Finalizers = []string{"example.com/audit"}
		h.create("cluster1", obj)
		h.delete("cluster1", "app")
		for range 2 { // the second changes nothing
			if err := h.Abandon(s.t.Context(), "cluster1", "app"); err != nil {
				t.Fatal(err)
			}
		}
		if left := h.get("cluster1", "app").Finalizers; len(left) != 1 || left[0] != "example.com/audit" {
			t.Errorf("the finalizers are %v", left)
		}
		left := h.get("cluster1", "app")
		left.Finalizers = nil
		if _, err := h.works("cluster1").Update(s.t.Context(), left, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("app", "2"))
		a := s.agent(work.AgentOptions{})
		s.settle()
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has %q", got)
		}
	})
}

// TestAbandonByFollower: a replica that is not the leader takes over to abandon a work.
func TestAbandonByFollower(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first, second := s.replicaOf(store), s.replicaOf(store)
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		if err := second.Abandon(s.t.Context(), "cluster1", "app"); !apierrors.IsConflict(err) {
			t.Errorf("a work that is not deleted: %v", err)
		}
		s.settle() // a replica may need a second call while it has not detected the leader
		first.delete("cluster1", "app")
		s.settle()
		if err := second.Abandon(s.t.Context(), "cluster1", "app"); err != nil {
			t.Error(err)
		}
		s.settle()
		if err := first.Abandon(s.t.Context(), "cluster1", "app"); !apierrors.IsNotFound(err) {
			t.Errorf("a work that is gone: %v", err)
		}
	})
}

// TestForgetOfInvalidCluster: Forget returns an error for a string that cannot be the name of a
// cluster.
func TestForgetOfInvalidCluster(t *testing.T) {
	h, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]string{
		"":        "work.Source.Forget: cluster: must not be empty",
		"a/b":     "work.Source.Forget: cluster: must not contain '/', which has a meaning in topics",
		"a\nb":    "work.Source.Forget: cluster: must not contain the control character U+000A",
		"unknown": "",
	} {
		got := ""
		var invalid *codec.Error
		if err := h.Forget(t.Context(), cluster); err != nil {
			got = err.Error()
			if !errors.As(err, &invalid) {
				t.Errorf("%q: the cause is lost in %v", cluster, err)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", cluster, got, want)
		}
	}
}

// TestForget forgets a cluster that does not return.
func TestForget(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		s.settle()
		h.create("cluster1", newWork("deleted", "1"))
		kept := newWork("held", "1")
		kept.Finalizers = []string{"example.com/mine"}
		h.create("cluster1", kept)
		h.create("cluster1", newWork("live", "1"))
		h.delete("cluster1", "deleted")
		h.delete("cluster1", "held")
		if err := h.Forget(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.works("cluster1").Get(t.Context(), "deleted", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted work: %v", err)
		}
		if diff := cmp.Diff([]string{"example.com/mine"}, h.get("cluster1", "held").Finalizers); diff != "" {
			t.Errorf("the finalizer of the user remains (-want +got):\n%s", diff)
		}
		if h.get("cluster1", "live").DeletionTimestamp != nil {
			t.Error("a live work was deleted")
		}
		if _, err := h.works("cluster1").Patch(t.Context(), "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.works("cluster1").Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the last finalizer: %v", err)
		}
	})
}
