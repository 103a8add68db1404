// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestSpecsAreChargedTheirMemory: small events, and events that share little memory, do not make
// an agent keep much more memory than it counts.
func TestSpecsAreChargedTheirMemory(t *testing.T) {
	const owner = `{"apiVersion":"","kind":"","name":"","uid":""}`
	large := func(s *scene, a *spoke, edit func(*workv1.ManifestWork)) {
		for i := range 600 {
			spec := evilSpec(a, fmt.Sprint("evil-", i), 1, 0)
			edit(spec.Work)
			s.sends(codec.ManifestWork, spec)
		}
	}
	tests := map[string]struct {
		profile codec.Profile
		run     func(s *scene, h *hub, a *spoke)
	}{
		"empty owner references": {codec.ManifestWork, func(s *scene, _ *hub, a *spoke) {
			s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
				spoilt := m.Event.Clone()
				spoilt.DataEncoded = []byte(strings.ReplaceAll(string(m.Event.Data()), owner, `{}`))
				m.Event = &spoilt
				deliver(m)
			})
			large(s, a, func(obj *workv1.ManifestWork) { obj.OwnerReferences = make([]metav1.OwnerReference, 2000) })
		}},
		"empty labels": {codec.ManifestWork, func(s *scene, _ *hub, a *spoke) {
			labels := map[string]string{}
			for i := range 5000 {
				labels[fmt.Sprint(i)] = ""
			}
			large(s, a, func(obj *workv1.ManifestWork) { obj.Labels = labels })
		}},
		// Each event makes the agent keep one more manifest of the previous event. That event also
		// had a large manifest.
		"manifests of earlier events": {codec.ManifestWork, func(s *scene, _ *hub, a *spoke) {
			const n = 50
			for i := range n {
				spec := evilSpec(a, "evil", int64(i+1), 0)
				manifests := make([]workv1.Manifest, n)
				for j := range manifests {
					text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a%d","namespace":"b"}}`, j)
					switch j {
					case i + 1:
						text = strings.TrimSuffix(text, "}") + `,"data":{"v":"` + strings.Repeat("x", 300<<10) + `"}}`
					case i, i - 1:
						text = strings.Repeat(" ", i+1-j) + text // the same manifest in another notation
						text = "{" + text[:i+1-j] + text[i+2-j:]
					}
					manifests[j].Raw = []byte(text)
				}
				spec.Work.Spec.Workload.Manifests = manifests
				s.sends(codec.ManifestWork, spec)
			}
		}},
		"tombstones with metadata": {codec.ManifestBundle, func(s *scene, h *hub, _ *spoke) {
			for i := range 50 {
				name := fmt.Sprint("w", i)
				h.create("cluster1", newWork(name, strings.Repeat(string(rune('a'+i%26)), 500<<10)))
				s.settle()
				h.delete("cluster1", name)
				s.settle()
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // after the epoch of snowflake IDs
				h := s.source(work.SourceOptions{Profile: test.profile})
				a := s.agent(work.AgentOptions{
					Profile: test.profile, MaxSourceBytes: fewSourceBytes, MaxBytes: fewAgentBytes, WatchCacheBytes: 1 << 18,
				})
				s.settle()
				before := liveHeap()
				test.run(s, h, a)
				time.Sleep(6 * time.Minute) // the watch cache expires
				grown, counted := liveHeap()-before, work.StateOfAgent(a.Agent).Bytes
				t.Logf("the heap has grown by %d KiB, %d KiB are counted", grown>>10, counted>>10)
				if grown > 2*counted+512<<10 {
					t.Errorf("the heap has grown by %d KiB, but only %d KiB are counted", grown>>10, counted>>10)
				}
			})
		})
	}
}

// TestRefusedStatusIsRequestedAgain: a status that was refused for lack of memory is shown when
// there is room, although the agent reports nothing again.
func TestRefusedStatusIsRequestedAgain(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		const works, long = 20, 30 << 10
		h := s.source(work.SourceOptions{Profile: profile, MaxClusterBytes: 64 << 10})
		a := s.agent(work.AgentOptions{Profile: profile})
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("w", i), "1"))
		}
		s.settle()
		text := strings.Repeat("x", long)
		for i := range works {
			a.report(fmt.Sprint("w", i), text)
		}
		s.settle()
		var refused, shown []string
		for i := range works {
			switch name := fmt.Sprint("w", i); {
			case h.degraded(name) == "True StatusRefused":
				refused = append(refused, name)
			case applied(h.get("cluster1", name)) == text:
				shown = append(shown, name)
			}
		}
		if len(refused) < 5 || len(refused)+len(shown) != works {
			s.t.Fatalf("%d statuses are refused and %d shown", len(refused), len(shown))
		}
		h.delete("cluster1", refused[len(refused)-1])
		s.settle()
		if n := work.StateOf(h.Source).RefusedStatuses; n != len(refused)-1 {
			s.t.Errorf("the source remembers %d refused statuses, want %d", n, len(refused)-1)
		}
		for _, name := range shown {
			a.report(name, "short")
		}
		time.Sleep(11 * time.Minute)
		for _, name := range refused[:5] {
			if got := applied(h.get("cluster1", name)); got != text {
				s.t.Errorf("work %s shows a status of %d bytes, %s", name, len(got), h.degraded(name))
			}
		}
	})
}
