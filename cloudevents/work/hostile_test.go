// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
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
				list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i*1000+j), Version: 1, UID: "u", Source: "hub"})
			}
			s.sends(codec.ManifestWork, list)
		},
		"lists that never end": func(s *scene, uid types.UID, head codec.Header, i int) {
			head.ResyncID = fmt.Sprint("list-", i)
			list := &codec.SpecResync{
				Header: head, TargetSource: "hub", AgentSession: "evil", Chunk: codec.Chunk{Index: 0, Count: 2},
			}
			for j := range 1000 {
				list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i*1000+j), Version: 0, UID: "u", Source: "hub"})
			}
			s.sends(codec.ManifestWork, list)
		},
		"questions": func(s *scene, uid types.UID, head codec.Header, i int) {
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

// TestEntriesWithoutSource: lists that name no source make a source send little data to the other
// clusters, even if many arrive.
func TestEntriesWithoutSource(t *testing.T) {
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
