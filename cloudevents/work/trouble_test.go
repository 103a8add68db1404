// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestOptionsAreChecked: the error names the invalid option.
func TestOptionsAreChecked(t *testing.T) {
	source := func(o work.SourceOptions) error {
		_, err := work.NewSource(memory.New().Transport(), o)
		return err
	}
	agent := func(o work.AgentOptions) error {
		_, err := work.NewAgent(memory.New().Transport(), o)
		return err
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no source ID", source(work.SourceOptions{}), "SourceOptions.SourceID"},
		{"source ID of two levels", source(work.SourceOptions{SourceID: "a/b"}), "SourceOptions.SourceID"},
		{"negative rate", source(work.SourceOptions{SourceID: "a", QPS: -1}), "SourceOptions.QPS must not be negative"},
		{"negative TTL", source(work.SourceOptions{SourceID: "a", TombstoneTTL: -1}), "SourceOptions.TombstoneTTL must not be negative"},
		{"outbox", source(work.SourceOptions{SourceID: "a", Outbox: -7}), "SourceOptions.Outbox must be Disabled"},
		{"no cluster", agent(work.AgentOptions{}), "AgentOptions.ClusterName"},
		{"cluster with a wildcard", agent(work.AgentOptions{ClusterName: "+"}), "AgentOptions.ClusterName"},
		{"no source at all", agent(work.AgentOptions{ClusterName: "a", Sources: []string{}}), "AgentOptions.Sources must name a source"},
		{"source of an agent", agent(work.AgentOptions{ClusterName: "a", Sources: []string{"x", "#"}}), "AgentOptions.Sources[1]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", tc.err, tc.want)
			}
		})
	}
	if _, err := work.NewSource(nil, work.SourceOptions{SourceID: "a"}); err == nil {
		t.Error("no error without a transport")
	}
	transport := memory.New().Transport()
	if _, err := work.NewSource(transport, work.SourceOptions{SourceID: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := work.NewAgent(transport, work.AgentOptions{ClusterName: "c"}); !errors.Is(err, cloudevents.ErrClaimed) {
		t.Errorf("a transport in use: %v", err)
	}
}

// TestManySources: an agent serves all sources. Each source sees only its own works, and a resync
// of one source does not change the works of another.
func TestManySources(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("first", "1"))
		two.create("cluster1", newWork("second", "2"))
		s.settle()
		a.report("first", "from one")
		a.report("second", "from two")
		s.settle()
		if got := applied(one.get("cluster1", "first")) + ", " + applied(two.get("cluster1", "second")); got != "from one, from two" {
			t.Errorf("statuses %q", got)
		}
		one.kill()
		three := s.source(work.SourceOptions{SourceID: "one"}) // restarted, without works
		if err := three.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settleProcesses()
		if diff := cmp.Diff([]string{"second"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
		if _, err := two.works("cluster1").Get(t.Context(), "first", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("one source sees another's work: %v", err)
		}
	})
}

// TestNameConflict: the first source keeps the name. The other source receives a condition, and its
// work is applied when the name is free.
func TestNameConflict(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "of two"))
		s.settle()
		if got := valueOf(t, a.get("app")); got != "of one" {
			t.Errorf("value %q", got)
		}
		if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != "True NameConflict" {
			t.Errorf("the other source sees %q", got)
		}
		one.delete("cluster1", "app")
		s.settle()
		if got := valueOf(t, a.get("app")); got != "of two" {
			t.Errorf("after the name was free: value %q", got)
		}
		a.report("app", "served")
		s.settle()
		if got := two.get("cluster1", "app"); applied(got) != "served" || conditionOf(got, workv1.WorkDegraded) != "" {
			t.Errorf("status %+v", got.Status)
		}
	})
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

// TestTooLarge: a write that exceeds the broker's limit is refused. A work that was queued before
// the limit was known gets a condition.
func TestTooLarge(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.SetMaxPacketSize(4000)
		s.bus.Disconnect()
		h := s.source(work.SourceOptions{})
		large := newWork("large", strings.Repeat("x", 4000))
		h.create("cluster1", large) // the limit of the broker is not known yet
		s.bus.Reconnect()
		s.settle()
		if got := conditionOf(h.get("cluster1", "large"), workv1.WorkDegraded); got != "True TooLarge" {
			t.Errorf("the queued work shows %q", got)
		}
		if _, err := h.works("cluster1").Create(t.Context(), newWork("more", strings.Repeat("x", 4000)), metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("Create: %v", err)
		}
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("small", "1"))
		s.settle()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, strings.Repeat("x", 4000))
		_, err := a.works().Patch(t.Context(), "small", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("status patch: %v", err)
		}
		if diff := cmp.Diff([]string{"small"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
	})
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
			t.Errorf("the user's finalizer holds (-want +got):\n%s", diff)
		}
		if h.get("cluster1", "live").DeletionTimestamp != nil {
			t.Error("a live work was deleted")
		}
		if _, err := h.works("cluster1").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.works("cluster1").Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the last finalizer: %v", err)
		}
	})
}

// TestAgentMetadata: changes of the source win, the agent keeps its own keys and finalizers, and
// the agent cannot change the spec.
func TestAgentMetadata(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		w := newWork("app", "1")
		w.Labels = map[string]string{"shared": "source", "dropped": "source"}
		h.create("cluster1", w)
		s.settle()
		a.patch("app", []byte(`{"metadata":{"labels":{"mine":"agent","shared":"agent","dropped":"agent"},"finalizers":["example.com/x"]}}`))
		s.settle()
		if diff := cmp.Diff(w.Labels, h.get("cluster1", "app").Labels); diff != "" {
			t.Errorf("the agent's labels reached the source (-want +got):\n%s", diff)
		}
		_, err := h.works("cluster1").Patch(t.Context(), "app", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"source","dropped":null}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.settle()
		got := a.get("app")
		if diff := cmp.Diff(map[string]string{"mine": "agent", "shared": "agent", "new": "source"}, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"example.com/x"}, got.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		got.Spec.Workload.Manifests = nil
		if _, err := a.works().Update(t.Context(), got, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "belongs to the work's source") {
			t.Errorf("an update of the spec: %v", err)
		}
		for verb, err := range map[string]error{
			"create": second(a.works().Create(t.Context(), newWork("x", "1"), metav1.CreateOptions{})),
			"delete": a.works().Delete(t.Context(), "app", metav1.DeleteOptions{}),
		} {
			if !apierrors.IsMethodNotSupported(err) {
				t.Errorf("%s on the agent: %v", verb, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestLateEvent: an agent does not apply a spec from before its start. It asks the source first.
func TestLateEvent(t *testing.T) {
	inScene(t, func(s *scene) { lateEvent(s, func(*hub) {}) })
}

// lateEvent deletes a work, and then sends the event of its creation again to a restarted agent.
func lateEvent(s *scene, begin func(*hub)) {
	s.t.Helper()
	h := s.source(work.SourceOptions{})
	first := s.agent(work.AgentOptions{})
	begin(h)
	s.settle()
	var late []cloudevents.Message
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasSuffix(m.Topic, "/clusters/cluster1/manifests") {
			late = append(late, m)
		}
		deliver(m)
	})
	h.create("cluster1", newWork("app", "1"))
	s.settle()
	h.delete("cluster1", "app")
	s.settle()
	first.kill()
	s.bus.Intercept(nil)
	second := s.agent(work.AgentOptions{})
	s.settle()
	publish(s, late[0])
	s.settle()
	if got := second.names(); len(got) != 0 {
		s.t.Errorf("a late event brought back %v", got)
	}
}

// publish sends a message as some client of the broker.
func publish(s *scene, m cloudevents.Message) {
	s.t.Helper()
	conn, err := s.bus.Transport().Connect(s.t.Context(), cloudevents.ConnectOptions{
		Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	acknowledged := make(chan error, 1)
	if err := conn.Publish(s.t.Context(), m, func(err error) { acknowledged <- err }); err != nil {
		s.t.Fatal(err)
	}
	if err := <-acknowledged; err != nil {
		s.t.Error(err)
	}
	if err := conn.Close(); err != nil {
		s.t.Error(err)
	}
}

// TestForeignEvents: an event that contradicts its topic, or that is not for this agent, changes
// nothing.
func TestForeignEvents(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		before := a.get("app").ResourceVersion
		forge := func(source, cluster, name string, edit func(*codec.Spec)) {
			spec := &codec.Spec{
				Header:  codec.Header{ID: "x", Source: source, Cluster: cluster},
				WorkRef: codec.WorkRef{ResourceID: codec.ResourceID(source, cluster, name), Version: soon(), UID: "u", Name: name},
				Work:    newWork(name, "forged"),
			}
			edit(spec)
			topic, event, err := codec.ManifestWork.Encode(spec)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: strings.Replace(topic, "/sources/evil/", "/sources/hub/", 1), Event: event})
		}
		forge("other", "cluster1", "app", func(*codec.Spec) {})                                 // not in Sources
		forge("evil", "cluster1", "app", func(*codec.Spec) {})                                  // on the topic of the source hub
		forge("hub", "cluster1", "app", func(s *codec.Spec) { s.Version = 1<<63 - 1 })          // exhausts the versions
		forge("hub", "cluster1", "app", func(s *codec.Spec) { s.UID, s.ResourceID = "", "id" }) // a strict peer's work of that name
		s.settle()
		if got := a.get("app"); got.ResourceVersion != before || valueOf(t, got) != "1" {
			t.Errorf("a forged event changed the work: %q", valueOf(t, got))
		}
	})
}

// TestResyncInterval: messages that the broker lost are repaired without a reconnect, in both
// directions. A resync of equal states sends no spec and no status.
func TestResyncInterval(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{ResyncInterval: time.Minute})
		a := s.agent(work.AgentOptions{})
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "one")
		s.settle()

		var mu sync.Mutex
		specs, statuses := 0, 0
		lose := true
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(m.Topic, "/clusters/cluster1/manifests"):
				specs++
			case strings.HasSuffix(m.Topic, "/clusters/cluster1/manifestsstatus"):
				statuses++
			}
			if !lose {
				deliver(m)
			}
		})
		h.setValue("cluster1", "app", "2")
		h.create("cluster1", newWork("new", "1"))
		a.report("app", "two")
		s.settle()
		mu.Lock()
		lose = false
		mu.Unlock()
		time.Sleep(time.Minute)
		s.settle()
		if got := valueOf(t, a.get("app")) + valueOf(t, a.get("new")); got != "21" {
			t.Errorf("values %q", got)
		}
		if got := applied(h.get("cluster1", "app")); got != "two" {
			t.Errorf("the hub sees status %q, want two", got)
		}
		mu.Lock()
		specs, statuses = 0, 0
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if specs+statuses != 0 {
			t.Errorf("ten resyncs of equal works sent %d specs and %d statuses", specs, statuses)
		}
	})
}
