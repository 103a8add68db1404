// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestUnencodableWorkIsDegraded: a work that no event can carry has the condition Degraded, because
// no agent can report it. Writes reject such a work, but a store may contain one.
func TestUnencodableWorkIsDegraded(t *testing.T) {
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

// TestTooLargeWorkStaysDegraded: a work that was too large to send stays Degraded until a later
// version is sent, even if the agent reports on an earlier version.
func TestTooLargeWorkStaysDegraded(t *testing.T) {
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
			t.Errorf("after a smaller version without a report the hub sees %v", got.Status.Conditions)
		}
		a.report("app", "2")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "" || applied(got) != "2" {
			t.Errorf("after a smaller one the hub sees %v", got.Status.Conditions)
		}
	})
}

// TestUnsentStatusStaysDegraded: while the last status of an agent's user could not be published,
// the work is Degraded at the source, also after new specs. A status that fits ends only that
// condition.
func TestUnsentStatusStaysDegraded(t *testing.T) {
	inScene(t, func(s *scene) {
		options := work.AgentOptions{Store: work.NewMemoryStore()}
		h, a := s.source(work.SourceOptions{}), s.agent(options)
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		hub := func(when, degraded, message string) {
			t.Helper()
			s.settle()
			got := h.get("cluster1", "app")
			if conditionOf(got, workv1.WorkDegraded) != degraded || applied(got) != message {
				t.Errorf("%s the hub sees %v", when, got.Status.Conditions)
			}
		}
		s.bus.SetMaxPacketSize(4000) // the connection still has the old limit
		a.report("app", strings.Repeat("x", 5000))
		hub("after the large status", "True TooLarge", "")
		h.setValue("cluster1", "app", "2")
		hub("after the second spec", "True TooLarge", "")
		a.kill()
		a = s.agent(options)
		hub("after the agent's restart", "True TooLarge", "")
		a.report("app", "ok")
		hub("after a small status", "", "ok")

		s.bus.SetMaxPacketSize(0)
		s.reconnect()
		s.bus.SetMaxPacketSize(4000)
		a.report("app", strings.Repeat("x", 5000))
		hub("after a large status", "True TooLarge", "")
		s.spoilSpecs("hub", "{")
		h.setValue("cluster1", "app", "3")
		hub("after a spec that cannot be decoded", "True InvalidSpec", "")
		a.report("app", "still 2")
		hub("after a status of the previous spec", "True InvalidSpec", "still 2")
		a.report("app", strings.Repeat("x", 5000))
		s.bus.Intercept(nil)
		h.setValue("cluster1", "app", "4")
		hub("after a spec that can be decoded", "True TooLarge", "")
		a.report("app", "4")
		hub("at the end", "", "4")
	})
}

// TestUnsentStatusInStoreOfEarlierBuild: a status that fits ends the condition of a status that did
// not, also if an earlier build stored it.
func TestUnsentStatusInStoreOfEarlierBuild(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		options := work.AgentOptions{Store: store}
		h, a := s.source(work.SourceOptions{}), s.agent(options)
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		s.bus.SetMaxPacketSize(4000)
		a.report("app", strings.Repeat("x", 5000))
		s.settle()
		a.kill()
		var changes []work.Change
		err := store.Load(t.Context(), func(key string, value []byte) error {
			if bytes.Contains(value, []byte(`"unsent":`)) {
				value = bytes.Replace(value, []byte(`"unsent":`), []byte(`"shrunk":true,"problem":`), 1)
				changes = append(changes, work.Change{Key: key, Value: value})
			}
			return nil
		})
		if err != nil || len(changes) != 1 {
			t.Fatalf("changed %d records: %v", len(changes), err)
		}
		if err := store.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		a = s.agent(options)
		s.settle()
		if got := conditionOf(h.get("cluster1", "app"), workv1.WorkDegraded); got != "True TooLarge" {
			t.Errorf("after the restart the hub sees %q", got)
		}
		a.report("app", "ok")
		s.settle()
		if got := h.get("cluster1", "app"); conditionOf(got, workv1.WorkDegraded) != "" || applied(got) != "ok" {
			t.Errorf("after a small status the hub sees %v", got.Status.Conditions)
		}
	})
}

// TestGoneFitsAfterLargestStatus: the largest status that the broker accepts leaves room for the
// report that the work was removed. Otherwise the work would stay at the source forever.
func TestGoneFitsAfterLargestStatus(t *testing.T) {
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
					patch := fmt.Sprintf(
						`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"R","lastTransitionTime":"2026-01-01T00:00:00Z","message":%q}]}}`, strings.Repeat("x", size))
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

// TestGoneFitsLoweredPacketLimit: the agent can report a removed work even if the broker has
// lowered its packet limit since the last status.
func TestGoneFitsLoweredPacketLimit(t *testing.T) {
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

// TestListsFitPacketLimit: lists are split into parts that a broker with a small packet limit
// accepts.
func TestListsFitPacketLimit(t *testing.T) {
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

// TestListsFitManagedBrokers: messages fit 128 KiB, the limit of AWS IoT Core, because lists are
// split. After the agent was away, each side has the other's changes. Only the changed works are sent
// again: a chunk does not count as a list of all works.
func TestListsFitManagedBrokers(t *testing.T) {
	const limit = 128 << 10
	const works = 2500
	const long = 3 // the least number of lists with more than a third of the limit
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		t.Run(profile.Name(), func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.bus.SetMaxPacketSize(limit)
				var largest, lists, specs atomic.Int64
				s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
					size := int64(len(m.Topic) + len(m.Event.Data()))
					if codec.IsResync(m.Event) && size > limit/3 {
						lists.Add(1)
					} else if strings.Contains(string(m.Event.Data()), "manifests") {
						specs.Add(1)
					}
					largest.Store(max(largest.Load(), size))
					deliver(m)
				})
				h := s.source(work.SourceOptions{Profile: profile})
				l := &link{Transport: s.bus.Transport()}
				a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
				s.settle()
				for i := range works {
					h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
				}
				s.settle()
				for i := range works {
					a.report(fmt.Sprintf("w%d", i), "first")
				}
				s.settle()
				l.setCut(true)
				s.settle()
				h.setValue("cluster1", "w7", "2")
				a.report("w9", "ok")
				s.settle()
				specs.Store(0)
				l.setCut(false)
				time.Sleep(2 * time.Minute)
				if got := specs.Load(); got > 10 {
					t.Errorf("%d specs of 1 changed work", got)
				}
				if got := valueOf(t, a.get("w7")); got != "2" {
					t.Errorf("after the agent's reconnect it still has %q", got)
				}
				if got := applied(h.get("cluster1", "w9")); got != "ok" {
					t.Errorf("after the agent's reconnect the source has the status %q", got)
				}
				if largest.Load() > limit || lists.Load() < long {
					t.Errorf("%d long lists, the largest message has %d bytes; want %d lists or more, and %d bytes at most",
						lists.Load(), largest.Load(), long, limit)
				}
			})
		})
	}
}

// TestTooLargeWriteIsRejected: a write that exceeds the broker's limit is refused. A work that was
// queued before the limit was known gets a condition.
func TestTooLargeWriteIsRejected(t *testing.T) {
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
		if _, err := h.works("cluster1").Create(t.Context(), newWork("more", strings.Repeat("x", 4000)),
			metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("Create: %v", err)
		}
		a := s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("small", "1"))
		s.settle()
		patch := fmt.Sprintf(
			`{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"Applied","status":"True","reason":"Tested","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, strings.Repeat("x", 4000))
		_, err := a.works().Patch(t.Context(), "small", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("status patch: %v", err)
		}
		if diff := cmp.Diff([]string{"small"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
	})
}
