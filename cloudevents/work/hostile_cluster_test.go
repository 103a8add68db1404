// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// largeStatus returns a status with n bytes in conditions that the schema allows.
func largeStatus(n, i int) *workv1.ManifestWorkStatus {
	out := appliedStatus("evil")
	for j := 0; n > 0; j++ {
		c := out.Conditions[0]
		c.Type, c.Message = fmt.Sprint("Evil", j), strings.Repeat(string(rune('a'+i%26)), min(n, 32<<10))
		out.Conditions = append(out.Conditions, c)
		n -= len(c.Message)
	}
	return out
}

// TestHostileClusterIsBounded: an agent with the rights of its own cluster cannot make the source
// keep much memory, and the source still serves other clusters.
func TestHostileClusterIsBounded(t *testing.T) {
	id := codec.ResourceID("hub", "cluster1", "app")
	attacks := map[string]func(s *scene, uid types.UID, head codec.Header, i int){
		"large statuses": func(s *scene, uid types.UID, head codec.Header, i int) {
			s.sends(codec.ManifestWork, &codec.Status{
				Header: head, WorkRef: codec.WorkRef{ResourceID: id, Version: 1, UID: uid, Name: "app"},
				SequenceID: int64(i + 1), Status: largeStatus(2<<20, i),
			})
		},
		"allowed statuses": func(s *scene, uid types.UID, head codec.Header, i int) {
			for j := range 4 {
				s.sends(codec.ManifestWork, &codec.Status{
					Header: head, WorkRef: codec.WorkRef{ResourceID: id, Version: 1, UID: uid, Name: "app"},
					SequenceID: int64(4*i + j + 1), Status: largeStatus(900<<10, i),
				})
			}
		},
		"unknown works": func(s *scene, uid types.UID, head codec.Header, i int) {
			list := &codec.SpecResync{Header: head, Scope: codec.ScopeListed, TargetSource: "hub", AgentSession: "evil"}
			for j := range 1000 {
				list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i*1000+j), Version: 1, UID: "u",
					Source: "hub"})
			}
			s.sends(codec.ManifestWork, list)
		},
		"lists that never end": func(s *scene, uid types.UID, head codec.Header, i int) {
			head.ResyncID = fmt.Sprint("list-", i)
			list := &codec.SpecResync{
				Header: head, TargetSource: "hub", AgentSession: "evil", Chunk: codec.Chunk{Index: 0, Count: 2},
			}
			for j := range 1000 {
				list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i*1000+j), Version: 0, UID: "u",
					Source: "hub"})
			}
			s.sends(codec.ManifestWork, list)
		},
		"requests": func(s *scene, uid types.UID, head codec.Header, i int) {
			head.ResyncID = fmt.Sprint("ask-", i)
			list := &codec.SpecResync{Header: head, Scope: codec.ScopeListed, TargetSource: "hub", AgentSession: "evil"}
			for range 1000 {
				list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: id, Version: 0, Source: "hub", SequenceID: 9})
			}
			s.sends(codec.ManifestWork, list)
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				h.complete()
				uid := h.create("cluster1", newWork("app", "1")).UID
				honest := s.agent(work.AgentOptions{ClusterName: "cluster2"})
				h.create("cluster2", newWork("app", "1"))
				s.settle()
				before := liveHeap()
				for i := range 100 {
					head := codec.Header{ID: fmt.Sprint(i), Source: "hub", Cluster: "cluster1", Agent: "evil", Time: time.Now().UTC()}
					attack(s, uid, head, i)
				}
				s.settle()
				if grown := liveHeap() - before; grown > 64<<20 {
					t.Errorf("the heap has grown by %d MiB", grown>>20)
				} else {
					t.Logf("the heap has grown by %d KiB, %d KiB are counted", grown>>10, work.StateOf(h.Source).Bytes>>10)
				}
				honest.report("app", "served")
				s.settle()
				if got := applied(h.get("cluster2", "app")); got != "served" {
					t.Errorf("the hub sees %q of the other cluster", got)
				}
				h.delete("cluster1", "app")
				if err := h.Forget(t.Context(), "cluster1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(6 * time.Minute)
				if left := liveHeap() - before; left > 4<<20 { // maps do not shrink
					t.Errorf("%d KiB of heap stay", left>>10)
				}
				h.kill()
				if used := work.StateOf(h.Source).Bytes; used > 16<<10 {
					t.Errorf("%d bytes are counted for a cluster that is forgotten", used)
				}
			})
		})
	}
}

// TestDigestFloodIsBounded: a source compares only one digest a second of an agent that sends
// digests at full rate.
func TestDigestFloodIsBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		h.complete()
		for i := range 3000 {
			h.create("cluster1", newWork(fmt.Sprint("w", i), "1"))
		}
		s.settle()
		digest := &codec.Digest{
			Header:       codec.Header{ID: "d", Source: "hub", Cluster: "cluster1", Agent: "evil", Time: time.Now().UTC()},
			AgentSession: "evil", Works: 1, Sums: []uint64{1},
		}
		began := processorTime()
		for range 3000 {
			s.sends(codec.ManifestWork, digest)
		}
		s.settle()
		if took := processorTime() - began; took > 350*time.Millisecond && !raceDetector {
			t.Errorf("3,000 digests took %s of a processor", took)
		} else {
			t.Logf("3,000 digests took %s of a processor", took)
		}
	})
}

// TestListsWithoutSourceSendLittle: lists that name no source make a source send little data to the
// other clusters, even if many arrive.
func TestListsWithoutSourceSendLittle(t *testing.T) {
	for _, session := range []string{"", "evil"} {
		t.Run("session "+session, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				h.complete()
				s.settleProcesses()
				sent := 0
				s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
					if m.Topic == "/sources/hub/resync/clusters/manifestsstatus" {
						sent += len(m.Event.Data())
					}
					deliver(m)
				})
				for i := range 60 {
					list := &codec.SpecResync{
						Header: codec.Header{
							ID: fmt.Sprint(i), Source: "hub", Cluster: "cluster1", Agent: "evil",
							ResyncID: fmt.Sprint(i), Time: time.Now().UTC(),
						},
						Scope: codec.ScopeListed, TargetSource: "hub", AgentSession: session,
					}
					for j := range 1000 {
						list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", j), Version: 1})
					}
					s.sends(codec.ManifestWork, list)
					time.Sleep(time.Second)
				}
				if sent > 128<<10 {
					t.Errorf("the source sent %d KiB to all clusters", sent>>10)
				}
			})
		})
	}
}

// claims publishes a status of a cluster for a work. The cluster may have guessed the resource ID
// of the work.
func (s *scene) claims(cluster, id string, edit func(*codec.Status)) {
	s.t.Helper()
	status := &codec.Status{
		Header:  codec.Header{ID: "x-" + id, Source: "hub", Cluster: cluster, Agent: "evil-agent", Time: time.Now().UTC()},
		WorkRef: codec.WorkRef{ResourceID: id, Version: 1},
		Status:  appliedStatus("done"),
	}
	edit(status)
	topic, event, err := codec.ManifestWork.Encode(status)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// TestClusterCannotChangeForeignWork: a message of one cluster with the ID of another cluster's
// work does not change that work. This also holds if the source has forgotten the work.
func TestClusterCannotChangeForeignWork(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known: %t", known), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				l := &link{Transport: s.bus.Transport()}
				a := s.agentOn(l, work.AgentOptions{ClusterName: "good", Sources: []string{"hub"}})
				h.create("good", newWork("app", "1"))
				s.settle()
				l.setCut(true)
				h.kill()
				h = s.source(work.SourceOptions{})
				if known {
					h.create("good", newWork("app", "2"))
				}
				h.complete()
				s.settleProcesses()
				s.claims("evil", codec.ResourceID("hub", "good", "app"), func(*codec.Status) {})
				s.settle()
				if known && applied(h.get("good", "app")) != "" {
					t.Error("the source shows a status that a foreign cluster sent")
				}
				l.setCut(false)
				s.settleProcesses()
				want := 0
				if known {
					want = 1
				} else if names := a.names(); len(names) == 1 && a.get(names[0]).DeletionTimestamp != nil {
					a.setFinalizers(names[0])
				}
				s.settle()
				list, err := a.works().List(s.t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != want || known && valueOf(t, &list.Items[0]) != "2" {
					t.Errorf("the agent has %d works, want %d", len(list.Items), want)
				}
			})
		})
	}
}

// TestUnknownWorksAreBounded: the number of unknown works that a cluster can make its source store
// is bounded. Unknown works do not displace works that the user deletes.
func TestUnknownWorksAreBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		const listed = 2000
		registry := prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: registry, MaxClusterBytes: 1 << 20})
		h.complete()
		s.settleProcesses()
		h.create("cluster1", newWork("app", "1"))
		a := s.agent(work.AgentOptions{})
		s.settle()
		a.setFinalizers("app", "example.com/slow")
		h.delete("cluster1", "app")
		s.settle()
		list := &codec.SpecResync{
			Header: codec.Header{ID: "x", Time: time.Now().UTC(), Source: "hub", Cluster: "cluster1", Agent: "evil-agent",
				ResyncID: "x"},
			Scope: codec.ScopeListed, TargetSource: "hub", AgentSession: "evil",
		}
		for i := range listed {
			list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i), Version: 1, UID: "u",
				Source: "hub"})
		}
		topic, event, err := codec.ManifestWork.Encode(list)
		if err != nil {
			t.Fatal(err)
		}
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if m.Topic != "/sources/hub/clusters/cluster1/statusresync" { // otherwise the honest agent would answer
				deliver(m)
			}
		})
		s.claims("cluster1", "id-x", func(*codec.Status) {})
		s.settleProcesses()
		s.bus.Intercept(nil)
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.claims("cluster1", "id-x", func(*codec.Status) {})
		s.settle()
		state := work.StateOf(h.Source)
		tombstones := state.Tombstones
		if state.Works != tombstones+1 || tombstones < 800 || tombstones > 1000 || state.Expiring != tombstones {
			t.Errorf("the source has %d works, %d tombstones and %d in the order of their expiry, want about 900 tombstones",
				state.Works, tombstones, state.Expiring)
		}
		const overBudget = "events_refused_total reason=over_budget"
		refused := metertest.Values(t, registry)[overBudget]
		// the answer to the agent may count too
		if least := float64(listed + 1 - tombstones); refused < least || refused > least+1 {
			t.Errorf("%v were refused, want %v", refused, least)
		}
		most := tombstones
		a.setFinalizers("app")
		s.settle()
		if items := h.list("cluster1").Items; len(items) != 0 {
			t.Errorf("the source still has %d works that were deleted", len(items))
		}
		// Removed works make room, and so do the 16 KiB of the deleted work.
		for i := range 20 {
			s.claims("cluster1", fmt.Sprint("id-", i), func(status *codec.Status) {
				status.Version = soon()
				status.Status.Conditions[0].Type = codec.ConditionDeleted
			})
		}
		s.claims("cluster1", "id-1999", func(*codec.Status) {})
		s.settle()
		if tombstones := work.StateOf(h.Source).Tombstones; tombstones != most-20+1 {
			t.Errorf("%d tombstones after 20 of %d have gone and another has come", tombstones, most)
		}
		if now := metertest.Values(t, registry)[overBudget]; now != refused {
			t.Errorf("%v were refused afterwards", now-refused)
		}
	})
}
