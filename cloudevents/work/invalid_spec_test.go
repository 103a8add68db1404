// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
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
		if got := h.get("cluster1", "app"); applied(got) != "late" ||
			conditionOf(got, workv1.WorkDegraded) != "True InvalidSpec" {
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

const unreadable = `{"manifests":7}`

// TestDegradedEndsWhenWorkIsServed: the agent removes the condition of a work that it could not
// serve as soon as it serves the work. It does so even if its user has reported nothing.
func TestDegradedEndsWhenWorkIsServed(t *testing.T) {
	tests := []struct {
		name, want string
		refuse     func(s *scene, one, two *hub)
		heal       func(s *scene, one, two *hub)
	}{{
		name: "the spec could not be read", want: "True InvalidSpec",
		refuse: func(s *scene, _, two *hub) {
			s.spoilSpecs("two", unreadable)
			two.create("cluster1", newWork("app", "1"))
		},
		heal: func(s *scene, _, two *hub) {
			s.bus.Intercept(nil)
			two.setValue("cluster1", "app", "better")
		},
	}, {
		name: "the name was taken", want: "True NameConflict",
		refuse: func(s *scene, one, two *hub) {
			one.create("cluster1", newWork("app", "of one"))
			s.settle()
			two.create("cluster1", newWork("app", "better"))
		},
		heal: func(_ *scene, one, _ *hub) { one.delete("cluster1", "app") },
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
				a := s.agent(work.AgentOptions{})
				s.settle()
				tc.refuse(s, one, two)
				s.settle()
				if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != tc.want {
					t.Errorf("refused, the hub sees %q, want %q", got, tc.want)
				}
				tc.heal(s, one, two)
				for _, after := range []string{"served", "after a resync"} {
					s.settle()
					if got := valueOf(t, a.get("app")); got != "better" {
						t.Errorf("%s: value %q", after, got)
					}
					if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != "" {
						t.Errorf("%s: the hub still sees %q", after, got)
					}
					s.reconnect()
				}
			})
		})
	}
}

func conditionOf(w *workv1.ManifestWork, kind string) string {
	for _, c := range w.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	return ""
}

// TestInvalidSpec: a spec that the agent cannot read is reported, and the last valid spec stays
// applied. The next valid spec ends the condition.
func TestInvalidSpec(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "good"))
		s.settle()
		a.report("app", "ok")
		s.settle()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, "/manifests") && !strings.Contains(m.Topic, "resync") {
				broken := m.Event.Clone()
				broken.DataEncoded = []byte(`{"manifests":7}`)
				m.Event = &broken
			}
			deliver(m)
		})
		h.setValue("cluster1", "app", "broken on the way")
		h.create("cluster1", newWork("new", "broken on the way"))
		s.settle()
		if got := valueOf(t, a.get("app")); got != "good" {
			t.Errorf("value %q, want the last good one", got)
		}
		for _, name := range []string{"app", "new"} {
			if got := conditionOf(h.get("cluster1", name), workv1.WorkDegraded); got != "True InvalidSpec" {
				t.Errorf("the hub sees %q of %s", got, name)
			}
		}
		if got := applied(h.get("cluster1", "app")); got != "ok" {
			t.Errorf("the report before is lost: %q", got)
		}
		s.bus.Intercept(nil)
		h.setValue("cluster1", "app", "better")
		h.setValue("cluster1", "new", "better")
		s.settle()
		if got := valueOf(t, a.get("app")) + valueOf(t, a.get("new")); got != "betterbetter" {
			t.Errorf("values %q", got)
		}
		if got := conditionOf(h.get("cluster1", "app"), workv1.WorkDegraded); got != "" {
			t.Errorf("the hub still sees %q", got)
		}
	})
}
