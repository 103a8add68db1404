// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

var (
	bundleSource = work.SourceOptions{Profile: codec.ManifestBundle}
	bundleAgent  = work.AgentOptions{Profile: codec.ManifestBundle}
)

// wiretap records every event of the profile ManifestBundle.
type wiretap struct {
	mu       sync.Mutex
	messages []codec.Message
}

// all returns the messages since the last call.
func (w *wiretap) all() []codec.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.messages
	w.messages = nil
	return out
}

func (s *scene) tap() *wiretap {
	w := &wiretap{}
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		msg, err := codec.ManifestBundle.Decode(m.Topic, m.Event)
		if err != nil {
			s.t.Errorf("an event that peers cannot read: %v", err)
		}
		for _, name := range []string{"workuid", "agentsession", "resyncid", "chunkcount", "resyncscope"} {
			if v, ok := m.Event.Extensions()[name]; ok {
				s.t.Errorf("%s has the attribute %s = %v", m.Topic, name, v)
			}
		}
		w.mu.Lock()
		w.messages = append(w.messages, msg)
		w.mu.Unlock()
		deliver(m)
	})
	return w
}

// take returns the messages of type M since the last call of take or all.
func take[M codec.Message](w *wiretap) []M {
	var out []M
	for _, m := range w.all() {
		if m, ok := m.(M); ok {
			out = append(out, m)
		}
	}
	return out
}

// TestBundleEventsFromCreateToRemoval: a source and an agent of this SDK send events that OCM peers
// accept, from the creation of a work to its removal.
func TestBundleEventsFromCreateToRemoval(t *testing.T) {
	inScene(t, func(s *scene) {
		wire := s.tap()
		h, a := s.source(bundleSource), s.agent(bundleAgent)
		obj := newWork("app", "1")
		obj.Finalizers = []string{"hub.example.com/own"}
		created := h.create("cluster1", obj)
		s.settle()
		spec := take[*codec.Spec](wire)[0]
		if spec.Action != codec.ActionCreate || spec.Version != 1 || created.Generation != 1 ||
			len(spec.Work.Finalizers) != 0 {
			t.Errorf("created as %s, version %d, generation %d, finalizers %v", spec.Action, spec.Version, created.Generation,
				spec.Work.Finalizers)
		}
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		a.report("app", "one")
		s.settle()
		status := take[*codec.Status](wire)[0]
		if status.Version != 1 || status.Metadata.UID != "" && string(status.Metadata.UID) != status.ResourceID ||
			!slices.Contains(status.Metadata.Finalizers, workv1.ManifestWorkFinalizer) {
			t.Errorf("reported as version %d with %+v", status.Version, status.Metadata)
		}
		if hash, err := codec.ManifestBundle.StatusHash(status.Status); err != nil || hash != status.Hash {
			t.Errorf("hash %s, %v, want %s", status.Hash, err, hash)
		}
		h.setValue("cluster1", "app", "2")
		s.settle()
		spec = take[*codec.Spec](wire)[0]
		if spec.Action != codec.ActionUpdate || spec.Version != 2 || spec.StatusSeq != status.SequenceID ||
			!slices.Equal(spec.Work.Finalizers, []string{workv1.ManifestWorkFinalizer}) {
			t.Errorf("updated as %s, version %d, sequence %d, finalizers %v", spec.Action, spec.Version, spec.StatusSeq,
				spec.Work.Finalizers)
		}
		h.delete("cluster1", "app")
		s.settle()
		if spec = take[*codec.Spec](wire)[0]; spec.Action != codec.ActionDelete || spec.Version != 3 {
			t.Errorf("deleted as %s, version %d", spec.Action, spec.Version)
		}
		a.setFinalizers("app")
		s.settle()
		gone := take[*codec.Status](wire)[0]
		if !gone.Gone() || gone.Version != 3 || gone.SequenceID <= status.SequenceID || len(gone.Metadata.Finalizers) != 0 ||
			gone.Metadata.DeletionTimestamp == nil {
			t.Errorf("gone as %+v", gone)
		}
		if got := h.get("cluster1", "app").Finalizers; !slices.Equal(got, []string{"hub.example.com/own"}) {
			t.Errorf("after that the hub's own finalizer is left, not %v", got)
		}
	})
}

// TestBundleResyncSendsNoEqualWorks: a source and an agent with equal works send neither specs nor
// statuses after a reconnect.
func TestBundleResyncSendsNoEqualWorks(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(bundleSource), s.agent(bundleAgent)
		for _, name := range []string{"a", "b"} {
			h.create("cluster1", newWork(name, "1"))
			s.settle()
			a.report(name, "one")
		}
		s.settle()
		wire := s.tap()
		s.bus.Disconnect()
		s.settle()
		s.bus.Reconnect()
		s.settle()
		for _, m := range wire.all() {
			switch m.(type) {
			case *codec.Spec, *codec.Status:
				t.Errorf("sent again: %+v", m)
			}
		}
	})
}

// TestBundleRestartedSource: works that a source without a store creates again reach the agent,
// even with lower versions. Other works are deleted only when the inventory is complete.
func TestBundleRestartedSource(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(bundleSource), s.agent(bundleAgent)
		h.create("cluster1", newWork("app", "1"))
		h.setValue("cluster1", "app", "2")
		h.setValue("cluster1", "app", "3")
		h.create("cluster1", newWork("forgotten", "1"))
		s.settle()
		a.report("app", "three")
		a.setFinalizers("forgotten", workv1.ManifestWorkFinalizer)
		s.settle()
		h.kill()
		h = s.source(bundleSource)
		h.create("cluster1", newWork("app", "new"))
		s.settle()
		if got := a.get("app"); valueOf(t, got) != "new" || got.Generation <= 3 {
			t.Errorf("value %q, generation %d after 3", valueOf(t, got), got.Generation)
		}
		if got := a.get("forgotten"); got.DeletionTimestamp != nil {
			t.Error("deleted before the inventory is complete")
		}
		if err := h.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settleProcesses()
		if got := a.get("forgotten"); got.DeletionTimestamp == nil {
			t.Error("not deleted when the inventory is complete")
		}
		a.setFinalizers("forgotten")
		s.settle()
		if diff := cmp.Diff([]string{"app"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
	})
}

// TestBundleUnreportedWork: a source without a store creates a work with the name and version of a
// work of an earlier process. The agent has the earlier work and has reported nothing, but receives
// the new work. This holds even if the first specs and statuses are lost, or if both works were
// created in the same second.
func TestBundleUnreportedWork(t *testing.T) {
	for name, tt := range map[string]struct {
		lost  int
		later time.Duration
	}{"no loss": {0, time.Minute}, "specs and statuses are lost": {3, time.Minute},
		"in one second": {0, 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				l, options := &link{Transport: s.bus.Transport()}, bundleAgent
				options.ClusterName = "cluster1"
				h, a := s.source(bundleSource), s.agentOn(l, options)
				synctest.Wait()
				h.create("cluster1", newWork("app", "old"))
				time.Sleep(tt.later)
				l.setCut(true)
				time.Sleep(tt.later)
				h.kill()
				h = s.source(bundleSource)
				synctest.Wait()
				h.create("cluster1", newWork("app", "new"))
				s.settle()
				specs, statuses := 0, 0
				s.decoding(codec.ManifestBundle, func(m codec.Message, _ cloudevents.Message) bool {
					switch m.(type) {
					case *codec.Spec:
						specs++
						return specs > tt.lost
					case *codec.Status:
						statuses++
						return statuses > tt.lost
					}
					return true
				})
				l.setCut(false)
				time.Sleep(2 * time.Minute)
				if got := valueOf(t, a.get("app")); got != "new" {
					t.Errorf("the agent has value %q", got)
				}
				if n := h.Clusters()[0].Unconfirmed; n != 0 {
					t.Errorf("%d works are not confirmed", n)
				}
			})
		})
	}
}

// TestBundleVersionsRiseAboveAgent: a source that restarts its versions raises them above the
// version of an agent that accepts no lower version.
func TestBundleVersionsRiseAboveAgent(t *testing.T) {
	inScene(t, func(s *scene) {
		wire := s.tap()
		h := s.source(bundleSource)
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		spec := take[*codec.Spec](wire)[0]
		spec.Work.Generation = 5
		topic, event, err := codec.ManifestBundle.Encode(&codec.Status{
			Header:  codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "old", Time: time.Now()},
			WorkRef: codec.WorkRef{ResourceID: spec.ResourceID, Version: 5, Name: "app"},
			// Agents of the OCM SDK report the events of an earlier source process in this form.
			SequenceID: 1 << 40, Metadata: &spec.Work.ObjectMeta, Status: &workv1.ManifestWorkStatus{},
		})
		if err != nil {
			t.Fatal(err)
		}
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.settle()
		specs := take[*codec.Spec](wire)
		if len(specs) != 1 || specs[0].Version <= 5 ||
			specs[0].Work.Annotations[codec.AnnotationResourceVersion] != strconv.FormatInt(specs[0].Version, 10) {
			t.Fatalf("sent %d specs, want one above version 5", len(specs))
		}
		if got := h.get("cluster1", "app").Generation; got != specs[0].Version {
			t.Errorf("generation %d: agents put the version into observedGeneration", got)
		}
	})
}

// TestBundleLateStatus: a source that restarts its versions learns of an earlier process from a
// late status. The agent may have newer versions of that process. They must not confirm the
// versions of this process.
func TestBundleLateStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		updates       int64 // number of updates by this process
		late, current int64 // versions of the late status, and of the work at the agent
		other, gone   bool  // the late status has another creation time, or reports the work as removed
	}{
		"of a greater version":                 {0, 2, 3, false, false},
		"of the same version, of another work": {0, 1, 2, true, false},
		"of a lower version, of another work":  {2, 2, 3, true, false},
		"of a work that is gone":               {0, 1, 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				wire, h := s.tap(), s.source(bundleSource)
				h.create("cluster1", newWork("app", "new"))
				s.settle()
				spec := take[*codec.Spec](wire)[0]
				for i := range tt.updates {
					h.setValue("cluster1", "app", strconv.FormatInt(i, 10))
				}
				s.settle()
				report := func(version, seq int64, other, gone bool) {
					meta := spec.Work.ObjectMeta
					meta.Generation = version
					if other {
						meta.CreationTimestamp = metav1.NewTime(meta.CreationTimestamp.Add(-time.Hour))
					}
					status := &workv1.ManifestWorkStatus{}
					if gone {
						meta.DeletionTimestamp = &meta.CreationTimestamp
						status.Conditions = []metav1.Condition{{Type: "Deleted", Status: metav1.ConditionTrue,
							Reason: "ManifestsDeleted"}}
					}
					topic, event, err := codec.ManifestBundle.Encode(&codec.Status{
						Header: codec.Header{ID: strconv.FormatInt(seq, 10), Source: "hub", Cluster: "cluster1", Agent: "agent",
							Time: time.Now()},
						WorkRef:    codec.WorkRef{ResourceID: spec.ResourceID, Version: version, Name: "app"},
						SequenceID: seq, Metadata: &meta, Status: status,
					})
					if err != nil {
						t.Fatal(err)
					}
					publish(s, cloudevents.Message{Topic: topic, Event: event})
					s.settle()
				}
				report(tt.late, 1<<40, tt.other, tt.gone)
				report(tt.current, 2<<40, tt.other, false)
				if got := h.Clusters()[0].Unconfirmed; got != 1 {
					t.Errorf("%d works are not confirmed, want 1: the agent has no version of this process", got)
				}
				if got := h.get("cluster1", "app").Generation; got <= tt.current {
					t.Errorf("generation %d: an agent with version %d of another work would keep that", got, tt.current)
				}
			})
		})
	}
}

// TestBundleCollidingIDs: works of two clusters can have the same resource ID in OCM's format. They
// stay separate works.
func TestBundleCollidingIDs(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(bundleSource)
		one, two := bundleAgent, bundleAgent
		one.ClusterName, two.ClusterName = "a-b", "a"
		first, second := s.agent(one), s.agent(two)
		h.create("a-b", newWork("c", "first"))
		h.create("a", newWork("b-c", "second"))
		s.settle()
		first.report("c", "first")
		second.report("b-c", "second")
		s.settle()
		if got := applied(h.get("a-b", "c")) + ", " + applied(h.get("a", "b-c")); got != "first, second" {
			t.Errorf("statuses %q", got)
		}
		h.delete("a", "b-c")
		s.settle()
		if got := h.get("a-b", "c").DeletionTimestamp; got != nil {
			t.Error("the other cluster's work is being deleted")
		}
	})
}

// TestBundleManySources: an agent that serves every source does not delete the works of one source
// for another source.
func TestBundleManySources(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := bundleSource, bundleSource
		one.SourceID, two.SourceID = "one", "two"
		hubs := []*hub{s.source(one), s.source(two)}
		a := s.agent(bundleAgent)
		hubs[0].create("cluster1", newWork("first", "1"))
		hubs[1].create("cluster1", newWork("second", "2"))
		s.settle()
		for _, h := range hubs {
			if err := h.InventoryComplete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.bus.Disconnect()
		s.settle()
		s.bus.Reconnect()
		s.settle()
		if diff := cmp.Diff([]string{"first", "second"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
		for _, name := range a.names() {
			if a.get(name).DeletionTimestamp != nil {
				t.Errorf("%s is being deleted", name)
			}
		}
	})
}

// TestBundleUnversioned: a work with the version annotation "0" is sent without a version, and sent
// again at every resync.
func TestBundleUnversioned(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(bundleSource), s.agent(bundleAgent)
		wire := s.tap()
		obj := newWork("app", "1")
		obj.Annotations = map[string]string{codec.AnnotationResourceVersion: "0"}
		h.create("cluster1", obj)
		s.settle()
		if spec := take[*codec.Spec](wire)[0]; spec.Version != 0 ||
			spec.Work.Annotations[codec.AnnotationResourceVersion] != "" {
			t.Errorf("version %d, annotations %v", spec.Version, spec.Work.Annotations)
		}
		a.report("app", "one")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "one" {
			t.Errorf("status %q", got)
		}
		s.bus.Disconnect()
		s.settle()
		s.bus.Reconnect()
		s.settle()
		if specs := take[*codec.Spec](wire); len(specs) == 0 {
			t.Error("the source cannot detect a change, so the work must be sent again")
		}
		h.delete("cluster1", "app")
		s.settle()
		if len(a.names()) != 0 {
			t.Errorf("works %v", a.names())
		}
	})
}

// TestBundleLargeMetadata: a write fails if its metadata is too large for an event attribute, with
// or without a connection.
func TestBundleLargeMetadata(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(bundleSource)
		obj := newWork("app", "1")
		obj.Annotations = map[string]string{"note": strings.Repeat("x", 1<<16)}
		if _, err := h.works("cluster1").Create(t.Context(), obj,
			metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("Create: %v", err)
		}
		obj.Annotations["note"] = strings.Repeat("x", 1<<15)
		h.create("cluster1", obj)
	})
}

// TestBundleInvalidSpec: an agent reports a spec that it cannot decode in a form that OCM peers
// accept.
func TestBundleInvalidSpec(t *testing.T) {
	inScene(t, func(s *scene) {
		h, _ := s.source(bundleSource), s.agent(bundleAgent)
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.Contains(m.Event.Type(), ".spec.") && len(m.Event.Data()) > 0 &&
				!strings.HasSuffix(m.Event.Type(), ".resync_request") {
				broken := m.Event.Clone()
				broken.DataEncoded = []byte(`{"manifests":7}`)
				m.Event = &broken
			}
			deliver(m)
		})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		if got := conditionOf(h.get("cluster1", "app"), workv1.WorkDegraded); got != "True InvalidSpec" {
			t.Errorf("the hub sees %q", got)
		}
	})
}
