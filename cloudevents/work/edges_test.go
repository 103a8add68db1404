// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

const unreadable = `{"manifests":7}`

// TestConditionsOfRefusalsGo: the agent removes the condition of a work that it could not serve as
// soon as it serves the work. It does so even if its user has reported nothing.
func TestConditionsOfRefusalsGo(t *testing.T) {
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

// TestEmptiedStatus: a status that the agent's user has emptied becomes empty at the source. If
// that event is lost, it becomes empty after a resync.
func TestEmptiedStatus(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost: %t", lost), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				a.report("app", "said too early")
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

// TestConflictEndsByDeletion: a work with a name that another source owns can be deleted. This
// holds even if the agent restarts and receives the other source's work first.
func TestConflictEndsByDeletion(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "of two"))
		s.settle()
		a.kill()
		two.delete("cluster1", "app")
		s.settle()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if !strings.HasPrefix(m.Topic, "/sources/two/") || codec.IsPresence(m.Event) {
				deliver(m)
				return
			}
			go func() {
				time.Sleep(500 * time.Millisecond)
				deliver(m)
			}()
		})
		a = s.agent(work.AgentOptions{})
		s.settle()
		if _, err := two.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted work: %v", err)
		}
		if got := a.get("app"); valueOf(t, got) != "of one" || got.DeletionTimestamp != nil {
			t.Errorf("the other source's work: value %q, deleted %v", valueOf(t, got), got.DeletionTimestamp)
		}
	})
}

// TestConflictThenInvalidSpec: a spec that waited for its name is not applied if a later,
// unreadable spec has replaced it.
func TestConflictThenInvalidSpec(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "outdated"))
		s.settle()
		s.spoilSpecs("two", unreadable)
		two.setValue("cluster1", "app", "unreadable")
		s.settle()
		one.delete("cluster1", "app")
		s.settle()
		if got := a.names(); len(got) != 0 {
			t.Errorf("applied %v with value %q", got, valueOf(t, a.get("app")))
		}
		if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != "True InvalidSpec" {
			t.Errorf("the hub sees %q", got)
		}
	})
}

// TestJSONPatchKeepsManifests: a JSON patch encodes the whole object again. This must not count as
// a change of manifests that are written in another notation than that of Go.
func TestJSONPatchKeepsManifests(t *testing.T) {
	tests := []struct{ name, raw, reason string }{
		{"HTML", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"run":"a && b > c"}}`, "Go escapes it"},
		{"spaces", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}`, "Go leaves them out"},
		{"large integer", `{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"n":9007199254740993, "m":1}`, "no float holds it"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				s.settle()
				w := newWork("app", "1")
				w.Labels = map[string]string{"a": "b"}
				w.Spec.Workload.Manifests[0].Raw = []byte(tc.raw)
				h.create("cluster1", w)
				s.settle()
				patch := []byte(`[{"op":"add","path":"/metadata/finalizers","value":["example.com/x"]}]`)
				if _, err := a.works().Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Errorf("a finalizer on the agent (%s): %v", tc.reason, err)
				}
				patch = []byte(`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`)
				out, err := h.works("cluster1").Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := string(out.Spec.Workload.Manifests[0].Raw); out.Generation != 1 || got != tc.raw {
					t.Errorf("a label on the source (%s): generation %d, manifest %s", tc.reason, out.Generation, got)
				}
				patch = []byte(`[{"op":"replace","path":"/spec/workload/manifests/0/kind","value":"Other"}]`)
				if out, err = h.works("cluster1").Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil || out.Generation != 2 {
					t.Errorf("a change of the manifest: %v, generation %d", err, out.Generation)
				}
			})
		})
	}
}

// TestUnsendable: a work that no event can carry has the condition Degraded, because no agent can
// report it. Writes reject such a work, but a store may contain one.
func TestUnsendable(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h := s.source(work.SourceOptions{Store: store})
		h.create("cluster1", newWork("deep", "much"))
		h.kill()
		var changes []work.Change
		if err := store.Load(s.t.Context(), func(key string, value []byte) error {
			deep := strings.Repeat("[", codec.MaxDepth) + strings.Repeat("]", codec.MaxDepth)
			changes = append(changes, work.Change{Key: key, Value: bytes.Replace(value, []byte(`"much"`), []byte(deep), 1)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(s.t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		h = s.source(work.SourceOptions{Store: store})
		a := s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("late", "1"))
		s.settle()
		late := a.get("late")
		late.Status.Conditions = []metav1.Condition{{
			Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "R",
			LastTransitionTime: metav1.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC),
		}}
		if _, err := a.works().UpdateStatus(t.Context(), late, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a time that JSON cannot express: %v", err)
		}
		if got := conditionOf(h.get("cluster1", "deep"), workv1.WorkDegraded); got != "True NotEncodable" {
			t.Errorf("the hub sees %q", got)
		}
		h.setValue("cluster1", "deep", "2")
		s.settle()
		a.report("deep", "ok")
		s.settle()
		if got := h.get("cluster1", "deep"); applied(got) != "ok" || conditionOf(got, workv1.WorkDegraded) != "" {
			t.Errorf("after a better one the hub sees %v", got.Status.Conditions)
		}
	})
}

// TestTooLargeStays: a work that was too large to send stays Degraded until a later version is
// sent, even if the agent reports on an earlier version.
func TestTooLargeStays(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		s.bus.SetMaxPacketSize(4000) // the connection still has the old limit
		h.setValue("cluster1", "app", strings.Repeat("x", 5000))
		s.settle()
		a.report("app", "1")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "True TooLarge" || applied(got) != "1" {
			t.Errorf("the hub sees %v", got.Status.Conditions)
		}
		h.setValue("cluster1", "app", "2")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "" || applied(got) != "1" {
			t.Errorf("after a smaller one that nobody has reported on the hub sees %v", got.Status.Conditions)
		}
		a.report("app", "2")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "" || applied(got) != "2" {
			t.Errorf("after a smaller one the hub sees %v", got.Status.Conditions)
		}
	})
}

// TestGoneFitsBesideLargeStatus: the largest status that the broker accepts leaves room for the
// report that the work was removed. Otherwise the work would stay at the source forever.
func TestGoneFitsBesideLargeStatus(t *testing.T) {
	for _, cluster := range []string{"c", "a-rather-long-cluster-name-of-some-company-in-some-region-x"} {
		t.Run(cluster, func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.bus.SetMaxPacketSize(4000)
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{ClusterName: cluster})
				s.settle()
				h.create(cluster, newWork("app", "1"))
				s.settle()
				size := 4000
				for ; size > 0; size -= 7 {
					patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"R","lastTransitionTime":"2026-01-01T00:00:00Z","message":%q}]}}`, strings.Repeat("x", size))
					_, err := a.works().Patch(t.Context(), "app", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
					if err == nil {
						break
					}
				}
				s.settle()
				if got := len(applied(h.get(cluster, "app"))); got != size || size < 1000 {
					t.Errorf("the hub sees a message of %d, reported was one of %d", got, size)
				}
				h.delete(cluster, "app")
				s.settle()
				if _, err := h.works(cluster).Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("the deleted work: %v", err)
				}
			})
		})
	}
}

// TestGoneInShort: the agent can report a removed work even if the broker has lowered its packet
// limit since the last status.
func TestGoneInShort(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", strings.Repeat("x", 5000))
		s.settle()
		s.bus.SetMaxPacketSize(4000)
		h.delete("cluster1", "app")
		s.settle()
		if _, err := h.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted work: %v", err)
		}
	})
}

// TestListsFitBroker: lists are split into parts that a broker with a small packet limit accepts.
func TestListsFitBroker(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.SetMaxPacketSize(16 << 10)
		h := s.source(work.SourceOptions{})
		l := &link{Transport: s.bus.Transport()}
		a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1"})
		s.settle()
		for i := range 600 {
			h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
		}
		s.settle()
		l.setCut(true)
		s.settle()
		h.setValue("cluster1", "w7", "2")
		s.settle()
		l.setCut(false)
		time.Sleep(time.Minute)
		if got := valueOf(t, a.get("w7")); got != "2" {
			t.Errorf("after the agent's reconnect it still has %q", got)
		}
	})
}

// TestStoppedWrites: a stopped source or agent rejects writes, because it would not deliver them.
func TestStoppedWrites(t *testing.T) {
	type client = worktyped.ManifestWorkInterface
	tests := []struct {
		name  string
		agent bool
		write func(context.Context, client, *workv1.ManifestWork) error
	}{
		{"create", false, func(ctx context.Context, c client, _ *workv1.ManifestWork) error {
			return second(c.Create(ctx, newWork("new", "1"), metav1.CreateOptions{}))
		}},
		{"update", false, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Spec = newWork("app", "2").Spec
			return second(c.Update(ctx, w, metav1.UpdateOptions{}))
		}},
		{"delete", false, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			return c.Delete(ctx, w.Name, metav1.DeleteOptions{})
		}},
		{"finalizers", true, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Finalizers = []string{"example.com/x"}
			return second(c.Update(ctx, w, metav1.UpdateOptions{}))
		}},
		{"status", true, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
			return second(c.UpdateStatus(ctx, w, metav1.UpdateOptions{}))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				h.kill()
				a.kill()
				c, w := h.works("cluster1"), h.get("cluster1", "app")
				if tc.agent {
					c, w = a.works(), a.get("app")
				}
				if err := tc.write(t.Context(), c, w); !apierrors.IsServiceUnavailable(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestListEndsWithAgent: a list that waits for the initial sync returns an error when the agent
// stops.
func TestListEndsWithAgent(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.Disconnect()
		a := s.agent(work.AgentOptions{})
		s.settle()
		ended := make(chan error, 1)
		go func() {
			_, err := a.works().List(context.WithoutCancel(s.t.Context()), metav1.ListOptions{})
			ended <- err
		}()
		s.settle()
		a.kill()
		synctest.Wait()
		select {
		case err := <-ended:
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the list waits for an agent that has stopped")
		}
	})
}

// TestLastFinalizer: after the write that removes the last finalizer, watches receive a single
// event: DELETED, with the object without finalizers.
func TestLastFinalizer(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		w := newWork("app", "1")
		w.Finalizers = []string{"example.com/mine"}
		h.create("cluster1", w)
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		h.delete("cluster1", "app")
		s.settle()
		expectGone(s, a.works(), func() { a.setFinalizers("app") })
		s.settle()
		expectGone(s, h.works("cluster1"), func() {
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := h.works("cluster1").Patch(t.Context(), "app", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
	})
}

func expectGone(s *scene, c worktyped.ManifestWorkInterface, remove func()) {
	s.t.Helper()
	w, err := c.Watch(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	seen := make(chan []string, 1)
	go func() {
		var events []string
		for e := range w.ResultChan() {
			events = append(events, fmt.Sprint(e.Type, " ", len(e.Object.(*workv1.ManifestWork).Finalizers)))
		}
		seen <- events
	}()
	synctest.Wait()
	remove()
	synctest.Wait()
	w.Stop()
	if diff := cmp.Diff([]string{"ADDED 1", "DELETED 0"}, <-seen); diff != "" {
		s.t.Errorf("events with the number of finalizers (-want +got):\n%s", diff)
	}
}
