// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestRepeatedStatusIsOneUpdate: a status that is repeated by the broker, the agent or its user is
// only one update.
func TestRepeatedStatusIsOneUpdate(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		var statuses []cloudevents.Message
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, "/manifestsstatus") {
				statuses = append(statuses, m)
			}
			deliver(m)
		})
		a.report("app", "done")
		s.settle()
		before := h.get("cluster1", "app")
		if len(statuses) != 1 || applied(before) != "done" {
			t.Fatalf("%d statuses, the source shows %q", len(statuses), applied(before))
		}
		again := func(change func(*codec.Status)) {
			m, err := codec.ManifestWork.Decode(statuses[0].Topic, statuses[0].Event)
			if err != nil {
				t.Fatal(err)
			}
			status := m.(*codec.Status)
			change(status)
			topic, e, err := codec.ManifestWork.Encode(status)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: e})
			s.settle()
		}
		unchanged := func(what string) {
			t.Helper()
			if after := h.get("cluster1", "app"); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s: an update, to %q", what, applied(after))
			}
		}
		again(func(*codec.Status) {})
		unchanged("the same event")
		again(func(m *codec.Status) { m.Status.Conditions[0].Message = "otherwise" })
		unchanged("another status of the same place in the order")
		again(func(m *codec.Status) { m.SequenceID++ })
		unchanged("an equal status of a later place in the order")
		published := len(statuses)
		if _, err := a.works().UpdateStatus(s.t.Context(), a.get("app"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.report("app", "done")
		s.settle()
		unchanged("an equal status of the agent's user")
		if len(statuses) != published {
			t.Errorf("the agent has published %d equal statuses", len(statuses)-published)
		}
		s.reconnect()
		unchanged("a new connection")
	})
}

// TestEmptyStatusReachesSource: a status that the agent's user has emptied becomes empty at the
// source. If that event is lost, it becomes empty after a resync.
func TestEmptyStatusReachesSource(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost: %t", lost), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				a.report("app", "too early")
				s.settle()
				if lost {
					s.bus.Intercept(func(cloudevents.Message, func(cloudevents.Message)) {})
				}
				a.patch("app", []byte(`{"status":{"conditions":[]}}`), "status")
				s.settle()
				s.bus.Intercept(nil)
				if lost {
					s.reconnect()
				}
				if got := h.get("cluster1", "app").Status.Conditions; len(got) != 0 {
					t.Errorf("the hub sees %v", got)
				}
			})
		})
	}
}
