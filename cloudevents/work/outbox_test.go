// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestOutbox: what waits is bounded, nothing accepted is lost, and a work that waits already may change.
func TestOutbox(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.Disconnect()
		h := s.source(work.SourceOptions{Outbox: 2})
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("a", "1"))
		h.create("cluster1", newWork("b", "1"))
		_, err := h.works("cluster1").Create(t.Context(), newWork("c", "1"), metav1.CreateOptions{})
		seconds, suggested := apierrors.SuggestsClientDelay(err)
		if !apierrors.IsTooManyRequests(err) || !suggested || seconds < 1 {
			t.Errorf("Create beyond the limit: %v", err)
		}
		h.setValue("cluster1", "a", "2")
		s.bus.Reconnect()
		for range 5 {
			s.settle()
		}
		if got := valueOf(t, a.get("a")) + valueOf(t, a.get("b")); got != "21" {
			t.Errorf("values %q", got)
		}
		h.create("cluster1", newWork("c", "1"))
	})
}

func TestOutboxDisabled(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{Outbox: work.Disabled})
		s.settle()
		h.create("cluster1", newWork("a", "1"))
		s.bus.Disconnect()
		synctest.Wait()
		_, err := h.works("cluster1").Create(t.Context(), newWork("b", "1"), metav1.CreateOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("Create while disconnected: %v", err)
		}
		if err := h.works("cluster1").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("Delete while disconnected: %v", err)
		}
		if h.get("cluster1", "a").DeletionTimestamp != nil {
			t.Error("a refused deletion took place")
		}
	})
}

// TestOutboxDisabledIsBounded: a broker that takes nothing, and does not say so, does not fill the memory.
func TestOutboxDisabledIsBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{Outbox: work.Disabled, DrainTimeout: -1})
		s.settle()
		s.bus.Stall()
		for i := range 10_000 {
			h.create("cluster1", newWork(fmt.Sprint("a", i), "1"))
		}
		_, err := h.works("cluster1").Create(t.Context(), newWork("b", "1"), metav1.CreateOptions{})
		if !apierrors.IsTooManyRequests(err) {
			t.Errorf("Create with 10,000 works under way: %v", err)
		}
		h.setValue("cluster1", "a7", "2") // it is one of them already
		s.bus.Resume()
		s.settle()
		h.create("cluster1", newWork("b", "1"))
	})
}
