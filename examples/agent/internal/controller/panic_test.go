// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// TestPanicDegradesWork checks that a panic ends neither the agent nor the service of other works.
func TestPanicDegradesWork(t *testing.T) {
	run(t, func(_ *controller.Options, c *cluster) {
		c.apply = func(w *workv1.ManifestWork) spoke.Result {
			if w.Name == "bad" {
				panic("secret")
			}
			return spoke.Result{}
		}
	}, func(b *bench) {
		b.create("bad", nil)
		b.create("good", nil)
		b.reports("bad", workv1.WorkDegraded, metav1.ConditionTrue, status.ReasonPanicked)
		b.reports("good", workv1.WorkApplied, metav1.ConditionTrue, "")
		if b.count(b.served, "bad") != b.count(b.applied, "bad") {
			b.Error("a recovered panic is recorded as an end of the agent")
		}
	})
}

// TestPostponedWorkIsDegraded checks that a work that ended the agent is postponed, and that its
// status reports the reason.
func TestPostponedWorkIsDegraded(t *testing.T) {
	run(t, func(_ *controller.Options, c *cluster) {
		until := time.Now().Add(time.Minute)
		c.begin = func(*workv1.ManifestWork) (time.Duration, int) { return time.Until(until), 2 }
	}, func(b *bench) {
		b.create("w", nil)
		b.reports("w", workv1.WorkDegraded, metav1.ConditionTrue, "The agent ended 2 times")
		if n := b.count(b.applied, "w"); n != 0 {
			b.Errorf("applied %d times", n)
		}
		time.Sleep(time.Minute)
		b.settle()
		b.reports("w", workv1.WorkDegraded, metav1.ConditionFalse, "")
		if n := b.count(b.applied, "w"); n != 1 {
			b.Errorf("applied %d times", n)
		}
	})
}
