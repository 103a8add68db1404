// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// An enhancement peer has only the attributes of the enhancement: no UIDs, sequences, sessions or
// scopes.

// sendEnhancement publishes a message that an enhancement peer could have sent.
func (s *scene) sendEnhancement(m codec.Message) {
	s.t.Helper()
	m.Head().ID = "x"
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// enhancementReport returns an enhancement agent's status of a work of the source "hub" on
// cluster1.
func enhancementReport(name string, version int64, at time.Time, message string) *codec.Status {
	return &codec.Status{
		Header:  codec.Header{Source: "hub", Cluster: "cluster1", Agent: "enhancement-agent", Time: at.UTC()},
		WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("hub", "cluster1", name), Version: version},
		Status:  appliedStatus(message),
	}
}

func appliedStatus(message string) *workv1.ManifestWorkStatus {
	return &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied", Message: message,
		LastTransitionTime: metav1.Now(),
	}}}
}

// TestStatusesWithoutUIDByTime: the statuses of an enhancement agent are ordered by the times of
// their events. These times may be equal if they are whole seconds.
func TestStatusesWithoutUIDByTime(t *testing.T) {
	tests := []struct {
		name string
		gap  time.Duration
		want string
	}{
		{"later", time.Second, "second"},
		{"in the same second", 0, "second"},
		{"late", -time.Second, "first"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				at := time.Now().Truncate(time.Second)
				s.sendEnhancement(enhancementReport("app", soon(), at, "first"))
				s.sendEnhancement(enhancementReport("app", soon(), at.Add(tc.gap), "second"))
				s.settle()
				if got := applied(h.get("cluster1", "app")); got != tc.want {
					t.Errorf("the hub sees %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// TestSpecsWithoutUIDByTime: the last event of an enhancement source wins, even if the source
// counts its versions from the beginning while a deletion is in progress.
func TestSpecsWithoutUIDByTime(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{})
		s.settle()
		send := func(version int64, value string) {
			m := &codec.Spec{
				Header:  codec.Header{Source: "enhancement", Cluster: "cluster1", Time: time.Now().UTC()},
				WorkRef: codec.WorkRef{ResourceID: "app", Version: version}, Work: newWork("app", value),
			}
			if value == "" {
				m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
			s.sendEnhancement(m)
			s.settle()
		}
		send(1, "one")
		a.setFinalizers("app", "example.com/x")
		send(2, "")
		send(9, "nine")
		send(1, "one again")
		a.setFinalizers("app")
		s.settle()
		if got := valueOf(t, a.get("app")); got != "one again" {
			t.Errorf("created %q", got)
		}
	})
}

// TestUnknownWorkOfAgentWithoutUIDs: a source with a complete inventory requests the status of an
// unknown work that an enhancement agent lists. Only the status shows whether the work belongs to
// the source. A replica does so immediately, because it does not check for other processes before.
func TestUnknownWorkOfAgentWithoutUIDs(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{SharedGroup: "hubs", Store: work.NewMemoryStore()})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		h.complete()
		s.settle()
		var requested []string
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if decoded, err := codec.ManifestWork.Decode(m.Topic, m.Event); err == nil {
				if r, ok := decoded.(*codec.StatusResync); ok {
					for _, e := range r.Entries {
						requested = append(requested, e.ResourceID)
					}
				}
			}
			deliver(m)
		})
		unknown := codec.ResourceID("hub", "cluster1", "forgotten")
		s.sendEnhancement(&codec.SpecResync{
			Header: codec.Header{Cluster: "cluster1", Agent: "enhancement-agent"}, Broadcast: true,
			Entries: []codec.SpecEntry{{ResourceID: unknown, Version: 1}},
		})
		s.settle()
		s.bus.Intercept(nil)
		if !slices.Contains(requested, unknown) {
			t.Errorf("it requested %q, and not %s", requested, unknown)
		}
	})
}

// logged starts a process with its own logger.
type logged struct {
	starter
	logger klog.Logger
}

func (l logged) Start(ctx context.Context) error {
	return l.starter.Start(klog.NewContext(ctx, l.logger))
}

// runLogged is run with a log. The returned function returns the text of the log.
func (s *scene) runLogged(p starter) (*process, func() string) {
	logger := ktesting.NewLogger(s.t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	return s.run(logged{p, logger}), func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
}

// TestRequestsForOtherAgentsAreIgnored: an agent ignores requests for other agents and does not log
// them as errors. It receives them because requests to an enhancement cluster use the topic that
// all agents read, and several sources may use one broker.
func TestRequestsForOtherAgentsAreIgnored(t *testing.T) {
	inScene(t, func(s *scene) {
		agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster2", Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		_, logs := s.runLogged(agent)
		h, other := s.source(work.SourceOptions{}), s.source(work.SourceOptions{SourceID: "other"})
		for _, source := range []*hub{h, other} {
			if err := source.InventoryComplete(s.t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		other.create("cluster2", newWork("app", "1"))
		s.settle()
		s.sendEnhancement(enhancementReport("app", soon(), time.Now(), "ok"))
		s.settle()
		s.reconnect()
		if text := logs(); strings.Contains(text, "Refused") {
			t.Errorf("the agent logged:\n%s", text)
		}
	})
}
