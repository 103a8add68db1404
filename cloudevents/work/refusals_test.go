// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestInvalidSpecOutlastsReports: a report of the work controller on the last valid spec does not
// hide that a later spec cannot be decoded.
func TestInvalidSpecOutlastsReports(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		s.spoilSpecs("hub", "{")
		h.setValue("cluster1", "app", "2")
		s.settle()
		a.report("app", "late")
		s.settle()
		if got := h.get("cluster1", "app"); applied(got) != "late" || conditionOf(got, workv1.WorkDegraded) != "True InvalidSpec" {
			t.Errorf("the hub sees %+v", got.Status)
		}
		s.bus.Intercept(nil)
		h.setValue("cluster1", "app", "3")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "" {
			t.Errorf("after a good spec the hub sees %+v", got.Status)
		}
	})
}
