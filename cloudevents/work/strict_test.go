// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// A strict peer knows the attributes of the enhancement alone: no UIDs, no sequences, no sessions, no scopes.

// sendStrict publishes a message that a strict peer could have sent.
func (s *scene) sendStrict(m codec.Message) {
	s.t.Helper()
	m.Head().ID = "x"
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// strictReport is a strict agent's status of the hub's work on cluster1.
func strictReport(name string, version int64, at time.Time, message string) *codec.Status {
	return &codec.Status{
		Header:  codec.Header{Source: "hub", Cluster: "cluster1", Agent: "strict-agent", Time: at.UTC()},
		WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("hub", "cluster1", name), Version: version},
		Status:  appliedStatus(message),
	}
}

func appliedStatus(message string) *workv1.ManifestWorkStatus {
	return &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Message: message}}}
}

// TestStrictStatusesByTime: a strict agent's statuses are ordered by the times of their events, which may be
// equal where they are whole seconds.
func TestStrictStatusesByTime(t *testing.T) {
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
				s.sendStrict(strictReport("app", 1<<61, at, "first"))
				s.sendStrict(strictReport("app", 1<<61, at.Add(tc.gap), "second"))
				s.settle()
				if got := applied(h.get("cluster1", "app")); got != tc.want {
					t.Errorf("the hub sees %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// TestStrictSpecsByTime: what a strict source said last wins, also where it counts its versions anew while a
// deletion is under way.
func TestStrictSpecsByTime(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{})
		s.settle()
		send := func(version int64, value string) {
			m := &codec.Spec{
				Header:  codec.Header{Source: "strict", Cluster: "cluster1", Time: time.Now().UTC()},
				WorkRef: codec.WorkRef{ResourceID: "app", Version: version}, Work: newWork("app", value),
			}
			if value == "" {
				m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
			s.sendStrict(m)
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

// logged starts a process with a logger of its own.
type logged struct {
	starter
	logger klog.Logger
}

func (l logged) Start(ctx context.Context) error {
	return l.starter.Start(klog.NewContext(ctx, l.logger))
}

// TestRequestsForOthers: requests to a strict cluster go to the topic that all agents read, and several sources
// may use one broker: an agent that they are not for leaves them alone and does not log them as errors.
func TestRequestsForOthers(t *testing.T) {
	inScene(t, func(s *scene) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster2", Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		s.run(logged{agent, logger})
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
		s.sendStrict(strictReport("app", 1<<61, time.Now(), "ok"))
		s.settle()
		s.reconnect()
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		if strings.Contains(log, "Refused") {
			t.Errorf("the agent logged:\n%s", log)
		}
	})
}

// strictAgent is an agent as the enhancement describes it.
type strictAgent struct {
	s    *scene
	conn cloudevents.Conn

	mu    sync.Mutex // guards what follows
	works map[string]*strictWork
	sent  int
}

type strictWork struct {
	version       int64
	source, value string
	gone          bool
}

func (a *strictAgent) connect() {
	a.s.t.Helper()
	conn, err := a.s.bus.Transport().Connect(a.s.t.Context(), cloudevents.ConnectOptions{
		Filters: []string{"/sources/+/clusters/strict/manifests", "/sources/+/resync/clusters/manifestsstatus"},
		Receive: a.receive,
		Refuse:  func(string, error) {},
	})
	if err != nil {
		a.s.t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
	list := &codec.SpecResync{Header: codec.Header{Cluster: "strict", Agent: "strict-agent"}, Broadcast: true}
	for id, w := range a.works {
		if !w.gone {
			list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: id, Version: w.version})
		}
	}
	a.send(list)
}

// send publishes without a second attempt, on a connection that may have ended.
func (a *strictAgent) send(m codec.Message) {
	a.sent++
	m.Head().ID, m.Head().Time = fmt.Sprint(a.sent), time.Now().UTC()
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		a.s.t.Error(err)
		return
	}
	if a.conn != nil {
		_ = a.conn.Publish(a.s.t.Context(), cloudevents.Message{Topic: topic, Event: event}, func(error) {})
	}
}

func (a *strictAgent) report(id string, w *strictWork) {
	status := appliedStatus(w.value)
	if w.gone {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: codec.ConditionDeleted, Status: metav1.ConditionTrue})
	}
	a.send(&codec.Status{
		Header:  codec.Header{Source: w.source, Cluster: "strict", Agent: "strict-agent"},
		WorkRef: codec.WorkRef{ResourceID: id, Version: w.version}, Status: status,
	})
}

func (a *strictAgent) receive(m cloudevents.Message) {
	msg, err := codec.ManifestWork.Decode(m.Topic, m.Event)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := msg.(type) {
	case *codec.Spec:
		a.take(m)
	case *codec.StatusResync:
		if m.Cluster != "" && m.Cluster != "strict" {
			return
		}
		for _, e := range m.Entries {
			if w := a.works[e.ResourceID]; w != nil {
				a.report(e.ResourceID, w)
			}
		}
		for id, w := range a.works {
			if len(m.Entries) == 0 && w.source == m.Source && !w.gone {
				a.report(id, w)
			}
		}
	}
}

func (a *strictAgent) take(m *codec.Spec) {
	w := a.works[m.ResourceID]
	if w == nil {
		w = &strictWork{source: m.Source}
		a.works[m.ResourceID] = w
	}
	if m.Version < w.version {
		return
	}
	w.version, w.gone = m.Version, m.DeletionTimestamp != nil
	if !w.gone {
		w.value = valueOf(a.s.t, m.Work)
	}
	a.report(m.ResourceID, w)
}

// TestStrictConvergence: after trouble of all kinds a strict agent has what its source wants, and the source
// its statuses.
func TestStrictConvergence(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+(*seeds+2)/3; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed, codec.ManifestWork)
				f.wanted["hub-a"]["strict"] = map[string]wish{}
				a := &strictAgent{s: f.scene, works: map[string]*strictWork{}}
				a.connect()
				for range 80 {
					f.strictStep(a)
				}
				f.calm()
				for range 2 {
					_ = a.conn.Close()
					f.reconnect()
					time.Sleep(15 * time.Second)
					a.connect()
					time.Sleep(15 * time.Second)
				}
				_ = a.conn.Close()
				f.judgeStrict(a)
			})
		})
	}
}

func (f *fleet) strictStep(a *strictAgent) {
	random := f.random
	switch n := random.IntN(100); {
	case n < 55:
		f.change("hub-a", "strict", fmt.Sprintf("w%d", random.IntN(4)))
	case n < 62:
		_ = a.conn.Close()
		f.pause()
		a.connect()
	case n < 66:
		f.restart("hub-a")
	case n < 72 && f.hostility.Cuts:
		f.links["hub-a"].setCut(random.IntN(2) == 0)
	case n < 78:
		f.setFaults(random.IntN(3) > 0)
	default:
		f.pause()
	}
}

func (f *fleet) judgeStrict(a *strictAgent) {
	list, err := f.hubs["hub-a"].works("strict").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	want, shown, held := map[string]string{}, map[string]string{}, map[string]string{}
	for name, w := range f.wanted["hub-a"]["strict"] {
		want[name] = w.Value
		id := codec.ResourceID("hub-a", "strict", name)
		if w := a.works[id]; w != nil && !w.gone {
			held[name] = w.value
		}
	}
	for i := range list.Items {
		shown[list.Items[i].Name] = applied(&list.Items[i])
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		f.t.Errorf("the hub sees other statuses than the values wanted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, held); diff != "" {
		f.t.Errorf("the strict agent has other works than the hub (-want +got):\n%s", diff)
	}
}
