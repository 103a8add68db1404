// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

// TestOutbox: the number of queued works is bounded, no accepted work is lost, and a queued work
// may still change.
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

// TestOutboxDisabledIsBounded: without an outbox, works in flight are bounded too if the broker
// stops its acknowledgements without an error.
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
		h.setValue("cluster1", "a7", "2") // it is one of these works
		s.bus.Resume()
		s.settle()
		h.create("cluster1", newWork("b", "1"))
	})
}

// guarded is a transport to a broker with access rules that forbid publishing on some topics.
type guarded struct {
	link
	forbidden atomic.Pointer[string] // a part of topics
}

func (s *scene) guarded(part string) *guarded {
	g := &guarded{link: link{Transport: s.bus.Transport()}}
	g.forbid(part)
	return g
}

// forbid replaces the forbidden part of topics. Empty forbids no topic.
func (g *guarded) forbid(part string) { g.forbidden.Store(&part) }

func (g *guarded) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	conn, err := g.link.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &guardedConn{conn, g}, nil
}

type guardedConn struct {
	cloudevents.Conn
	transport *guarded
}

func (c *guardedConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	if part := *c.transport.forbidden.Load(); part != "" && strings.Contains(m.Topic, part) {
		go done(errors.New("not authorized"))
		return nil
	}
	return c.Conn.Publish(ctx, m, done)
}

// again cuts the connection and waits for a new connection.
func (s *scene) again(g *guarded) {
	g.setCut(true)
	s.settle()
	g.setCut(false)
	time.Sleep(15 * time.Second) // more than the longest backoff
	synctest.Wait()
}

// TestForbiddenWorkUsesNoRoom: works that the access rules of the broker forbid use no room in the
// outbox. They have the condition Degraded until they are published.
func TestForbiddenWorkUsesNoRoom(t *testing.T) {
	inScene(t, func(s *scene) {
		broker := s.guarded("/clusters/forbidden")
		h := s.sourceOn(broker, work.SourceOptions{SourceID: "hub", Outbox: 20, DrainTimeout: -1})
		s.settle()
		for i := range 20 {
			h.create(fmt.Sprint("forbidden", i), newWork("a", "1"))
		}
		s.settle()
		h.create("good", newWork("a", "1"))
		got := h.get("forbidden1", "a")
		if conditionOf(got, workv1.WorkDegraded) != "True NotPublished" ||
			messageOf(got, workv1.WorkDegraded) != "not authorized" {
			t.Errorf("status of a forbidden work: %+v", got.Status)
		}
		if got := h.get("good", "a").Status.Conditions; len(got) > 0 {
			t.Errorf("status of an allowed work: %+v", got)
		}
		h.setValue("forbidden1", "a", "2") // this version has the same problem
		s.again(broker)
		if got := conditionOf(h.get("forbidden1", "a"), workv1.WorkDegraded); got != "True NotPublished" {
			t.Errorf("refused again: condition %q", got)
		}
		broker.forbid("")
		s.again(broker)
		for i := range 20 {
			if got := h.get(fmt.Sprint("forbidden", i), "a"); conditionOf(got, workv1.WorkDegraded) != "" {
				t.Errorf("published, and the status is %+v", got.Status)
			}
		}
	})
}

// TestForbiddenWorkShowsLatestReport: the latest report of an agent is shown while the work is
// forbidden, and after the work is published.
func TestForbiddenWorkShowsLatestReport(t *testing.T) {
	const degraded = `{"type":"Degraded","status":"True","reason":"Broken","message":"by the agent","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	for name, tt := range map[string]struct{ before, during string }{
		"before the refusal": {before: degraded}, "during the refusal": {during: degraded}, "never": {},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				broker := s.guarded("")
				h := s.sourceOn(broker, work.SourceOptions{SourceID: "hub"})
				a := s.agent(work.AgentOptions{ClusterName: "cluster1"})
				report := func(message, more string) {
					condition := fmt.Sprintf(
						`{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}`,
						message)
					if more != "" {
						condition += "," + more
					}
					a.patch("app", []byte(`{"status":{"conditions":[`+condition+`]}}`), "status")
					s.settle()
				}
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				report("one", tt.before)
				broker.forbid("/clusters/cluster1/manifests")
				h.setValue("cluster1", "app", "2")
				s.settle()
				if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "True NotPublished" ||
					applied(got) != "one" {
					t.Errorf("refused: status %+v", got.Status)
				}
				report("two", tt.during)
				if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "True NotPublished" ||
					applied(got) != "two" {
					t.Errorf("reported meanwhile: status %+v", got.Status)
				}
				broker.forbid("")
				s.again(broker)
				want := ""
				if tt.during != "" {
					want = "by the agent"
				}
				if got := h.get("cluster1", "app"); messageOf(got, workv1.WorkDegraded) != want || applied(got) != "two" ||
					valueOf(t, a.get("app")) != "2" {
					t.Errorf("published: status %+v", got.Status)
				}
			})
		})
	}
}

// TestForbiddenConditionEndsAfterRestart: the condition of a forbidden work is also removed when
// another process of the source publishes the work.
func TestForbiddenConditionEndsAfterRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		file := t.TempDir() + "/works.db"
		start := func(forbidden string) (*hub, func()) {
			store, err := boltstore.Open(file, boltstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			h := s.sourceOn(s.guarded(forbidden), work.SourceOptions{SourceID: "hub", Store: store, DrainTimeout: -1})
			return h, func() {
				h.kill()
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		h, end := start("/clusters/cluster1/manifests")
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		if got := conditionOf(h.get("cluster1", "app"), workv1.WorkDegraded); got != "True NotPublished" {
			t.Errorf("condition %q", got)
		}
		end()
		s.bus.Disconnect() // otherwise it may be published before the check
		h, end = start("")
		defer end()
		if got := conditionOf(h.get("cluster1", "app"), workv1.WorkDegraded); got != "True NotPublished" {
			t.Errorf("condition after a restart %q", got)
		}
		s.bus.Reconnect()
		s.settle()
		s.agent(work.AgentOptions{ClusterName: "cluster1"})
		s.settle()
		if got := h.get("cluster1", "app").Status.Conditions; len(got) > 0 {
			t.Errorf("published, and the status is %+v", got)
		}
	})
}
