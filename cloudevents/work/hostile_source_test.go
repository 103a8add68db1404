// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

const (
	fewSourceBytes = 1 << 20
	fewAgentBytes  = 2 << 20
)

// evilSpec returns the spec of a work of the source "evil", with n bytes in its manifest.
func evilSpec(a *spoke, name string, version int64, n int) *codec.Spec {
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"data":{"v":"%s"}}`,
		strings.Repeat(string(rune('a'+version%26)), n))
	obj := &workv1.ManifestWork{}
	obj.Spec.Workload.Manifests = []workv1.Manifest{{}}
	obj.Spec.Workload.Manifests[0].Raw = []byte(raw)
	return &codec.Spec{
		Header: codec.Header{ID: fmt.Sprint(name, version), Source: "evil", Cluster: "cluster1",
			Time: time.Now().UTC()},
		WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("evil", "cluster1", name), Version: version,
			UID: types.UID("uid-" + name), Name: name},
		AgentSession: work.StateOfAgent(a.Agent).Session,
		Work:         obj,
	}
}

// TestHostileSourceIsBounded: one source cannot make an agent keep more than MaxSourceBytes, and
// the agent still serves other sources.
func TestHostileSourceIsBounded(t *testing.T) {
	attacks := map[string]func(s *scene, a *spoke, i int){
		"large works": func(s *scene, a *spoke, i int) {
			s.sends(codec.ManifestWork, evilSpec(a, fmt.Sprint("evil-", i), 1, 64<<10))
		},
		"one work that grows": func(s *scene, a *spoke, i int) {
			s.sends(codec.ManifestWork, evilSpec(a, "evil", int64(i+1), i*32<<10/10))
		},
		"names of other works": func(s *scene, a *spoke, i int) {
			for _, name := range []string{"honest", fmt.Sprint("evil-", i)} {
				s.sends(codec.ManifestWork, evilSpec(a, name, int64(i+1), i*32<<10/10))
			}
		},
		"replacements during a deletion": func(s *scene, a *spoke, i int) {
			name := fmt.Sprint("evil-", i)
			deletion := evilSpec(a, name, 1, 0)
			deletion.DeletionTimestamp = new(metav1.Now())
			s.sends(codec.ManifestWork, deletion)
			s.sends(codec.ManifestWork, evilSpec(a, name, 2, 64<<10))
		},
		"deletions of unknown works": func(s *scene, a *spoke, i int) {
			for j := range 100 {
				deletion := evilSpec(a, fmt.Sprint("evil-", i*100+j), 1, 0)
				deletion.DeletionTimestamp = new(metav1.Now())
				s.sends(codec.ManifestWork, deletion)
			}
		},
		"works of another agent": func(s *scene, a *spoke, i int) {
			for j := range 100 {
				spec := evilSpec(a, fmt.Sprint(strings.Repeat("n", 200), i*100+j), 1, 0)
				spec.AgentSession = "another"
				s.sends(codec.ManifestWork, spec)
			}
		},
		"invented sources": func(s *scene, a *spoke, i int) {
			for j := range 100 {
				spec := evilSpec(a, "evil", 1, 0)
				spec.Source, spec.AgentSession = fmt.Sprint("evil-", i*100+j), "another"
				spec.ResourceID = codec.ResourceID(spec.Source, "cluster1", "evil")
				s.sends(codec.ManifestWork, spec)
			}
		},
		"ends of answers of invented sources": func(s *scene, a *spoke, i int) {
			for j := range 100 {
				s.sends(codec.ManifestWork, &codec.StatusResync{
					Header: codec.Header{ID: "x", Source: fmt.Sprint("evil-", i*100+j), Cluster: "cluster1", ResyncID: "r"},
					Scope:  codec.ScopeListed, Chunk: codec.Chunk{Count: 5},
				})
			}
		},
		"endless answer": func(s *scene, a *spoke, i int) {
			for j := range 100 {
				spec := evilSpec(a, "evil", 1, 0)
				spec.ID, spec.ResyncID = fmt.Sprint(strings.Repeat("n", 200), i*100+j), work.StateOfAgent(a.Agent).ResyncID
				s.sends(codec.ManifestWork, spec)
			}
		},
		"requests": func(s *scene, a *spoke, i int) {
			if i == 0 {
				for j := range 100 {
					s.sends(codec.ManifestWork, evilSpec(a, fmt.Sprint("evil-", j), 1, 0))
				}
			}
			for j := range 20 {
				s.sends(codec.ManifestWork, &codec.StatusResync{
					Header: codec.Header{ID: "x", Source: "evil", Cluster: "cluster1", ResyncID: fmt.Sprint(i, "-", j)},
					Scope:  codec.ScopeLists,
				})
			}
		},
	}
	for name, attack := range attacks {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stored=%t", name, stored), func(t *testing.T) {
				inScene(t, func(s *scene) {
					o := work.AgentOptions{MaxSourceBytes: fewSourceBytes, MaxBytes: fewAgentBytes, TombstoneTTL: time.Minute,
						WatchCacheBytes: 1 << 18}
					if stored {
						o.Store = work.NewMemoryStore()
					}
					h, a := s.source(work.SourceOptions{}), s.agent(o)
					h.create("cluster1", newWork("honest", "1"))
					s.settle()
					before, counted := liveHeap(), work.StateOfAgent(a.Agent).Bytes
					for i := range 100 {
						attack(s, a, i)
						if used := work.StateOfAgent(a.Agent).Bytes; used > fewAgentBytes {
							t.Fatalf("%d bytes are counted, the limit is %d", used, fewAgentBytes)
						}
					}
					s.settle()
					// The Store has a copy, and the decoding of one event needs several times its
					// size.
					grown := liveHeap() - before
					t.Logf("the heap has grown by %d KiB, %d KiB are counted", grown>>10, work.StateOfAgent(a.Agent).Bytes>>10)
					if grown > 4*fewAgentBytes {
						t.Errorf("the heap has grown by %d MiB", grown>>20)
					}
					var held []string
					for id, r := range work.StateOfAgent(a.Agent).Records {
						if r.Source != "evil" {
							continue
						}
						if r.Charged != r.Size {
							t.Errorf("work %s is charged %d bytes and has %d", id, r.Charged, r.Size)
						}
						if r.Phase != protocol.Tombstone {
							held = append(held, r.Name)
						}
					}
					h.create("cluster1", newWork("another", "1"))
					s.settle()
					a.report("another", "served")
					s.settle()
					if got := applied(h.get("cluster1", "another")); got != "served" {
						t.Errorf("the hub sees %q of its work", got)
					}
					for _, w := range held {
						deletion := evilSpec(a, w, soon(), 0)
						deletion.DeletionTimestamp = new(metav1.Now())
						s.sends(codec.ManifestWork, deletion)
					}
					s.settle()
					for _, w := range a.names() {
						a.setFinalizers(w)
					}
					h.delete("cluster1", "honest")
					s.settle()
					time.Sleep(6 * time.Minute)
					if used := work.StateOfAgent(a.Agent).Bytes; used > counted+64<<10 {
						t.Errorf("%d bytes are counted in the end, %d were in the beginning", used, counted)
					}
					if left := liveHeap() - before; left > 1<<20 && !stored {
						t.Errorf("%d KiB of heap stay", left>>10)
					}
				})
			})
		}
	}
}
