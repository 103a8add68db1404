// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestStoppedSource: calls of a stopped source have no effect and return an error, with and without
// a Store.
func TestStoppedSource(t *testing.T) {
	for name, store := range map[string]work.Store{"in memory": nil, "with a store": work.NewMemoryStore()} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{Store: store})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				h.delete("cluster1", "app")
				h.kill()
				for name, call := range map[string]func() error{
					"InventoryComplete": func() error { return h.InventoryComplete(s.t.Context()) },
					"Forget":            func() error { return h.Forget(s.t.Context(), "cluster1") },
					"Forget, unknown":   func() error { return h.Forget(s.t.Context(), "cluster2") },
					"Abandon":           func() error { return h.Abandon(s.t.Context(), "cluster1", "app") },
					"Create": func() error {
						_, err := h.works("cluster1").Create(s.t.Context(), newWork("late", "1"), metav1.CreateOptions{})
						return err
					},
				} {
					if err := call(); !apierrors.IsServiceUnavailable(err) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if h.get("cluster1", "app").DeletionTimestamp == nil {
					t.Error("the work is not as it was")
				}
			})
		})
	}
}

// TestForgetNoCluster: Forget returns an error for a string that cannot be the name of a cluster.
func TestForgetNoCluster(t *testing.T) {
	h, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]string{
		"":       "work.Source.Forget: cluster: must not be empty",
		"a/b":    "work.Source.Forget: cluster: must not contain '/', which has a meaning in topics",
		"a\nb":   "work.Source.Forget: cluster: must not contain the control character U+000A",
		"nobody": "",
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
