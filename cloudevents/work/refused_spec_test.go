// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// sized returns a work with at least n bytes of manifests.
func sized(name string, n int) *workv1.ManifestWork { return newWork(name, strings.Repeat("x", n)) }

// countLarge counts the large specs that are published.
func (s *scene) countLarge() *atomic.Int64 {
	var n atomic.Int64
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasSuffix(m.Topic, "/manifests") && len(m.Event.Data()) > 600<<10 {
			n.Add(1)
		}
		deliver(m)
	})
	return &n
}

// degraded returns the condition Degraded of a work at its source.
func (h *hub) degraded(name string) string {
	return conditionOf(h.get("cluster1", name), workv1.WorkDegraded)
}

// TestRefusedSpecArrivesWhenThereIsRoom: the source shows that a spec exceeds the agent's limit.
// The previous spec stays applied. The refused spec arrives when there is room, whatever the
// reason.
func TestRefusedSpecArrivesWhenThereIsRoom(t *testing.T) {
	tests := map[string]struct {
		room func(s *scene, h *hub, a *spoke)
		wait time.Duration
	}{
		"a work is deleted": {func(_ *scene, h *hub, _ *spoke) { h.delete("cluster1", "first") }, 2 * time.Second},
		"a work shrinks":    {func(_ *scene, h *hub, _ *spoke) { h.setValue("cluster1", "first", "1") }, 2 * time.Second},
		"the request is lost": {func(s *scene, h *hub, _ *spoke) {
			var lost atomic.Bool
			s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
				if !strings.HasSuffix(m.Topic, "/specresync") || codec.IsDigest(m.Event) || lost.Swap(true) {
					deliver(m)
				}
			})
			h.setValue("cluster1", "first", "1") // its confirmation is in the message with the question
			s.settle()
			if !lost.Load() {
				s.t.Error("no question was lost")
			}
		}, 90 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				registry := prometheus.NewPedanticRegistry()
				h, a := s.source(work.SourceOptions{}),
					s.agent(work.AgentOptions{MaxSourceBytes: 1 << 20, MetricsRegisterer: registry})
				h.complete()
				s.settle()
				h.create("cluster1", sized("first", 700<<10))
				h.create("cluster1", newWork("old", "1"))
				s.settle()
				h.create("cluster1", sized("new", 500<<10))
				s.settle()
				metertest.Expect(t, registry, map[string]float64{"events_refused_total reason=over_budget": 1,
					"works state=rejected": 1})
				for _, name := range []string{"new", "old"} {
					if got := messageOf(h.get("cluster1", name), workv1.WorkDegraded); name == "new" &&
						(!strings.Contains(got, "AgentOptions.MaxSourceBytes (1048576 bytes)") || !strings.Contains(got, "work has 51")) {
						t.Errorf("the condition of the refused work is %q", got)
					}
				}
				h.setValue("cluster1", "old", strings.Repeat("y", 500<<10))
				time.Sleep(time.Minute)
				for _, name := range []string{"new", "old"} {
					if got := h.degraded(name); got != "True SpecRefused" {
						t.Errorf("work %s has the condition Degraded %q", name, got)
					}
					if got := conditionOf(h.get("cluster1", name), work.ConditionDelivered); got != "" {
						t.Errorf("work %s has the condition Delivered %q", name, got)
					}
				}
				if got := valueOf(t, a.get("old")); got != "1" {
					t.Errorf("the agent has %.10q, want the spec before", got)
				}
				h.setValue("cluster1", "new", "2") // a spec that fits needs no more room
				s.settle()
				if got := valueOf(t, a.get("new")); got != "2" || h.degraded("new") != "" {
					t.Errorf("the agent has %.10q, and the source shows %q", got, h.degraded("new"))
				}
				test.room(s, h, a)
				time.Sleep(test.wait)
				if got := valueOf(t, a.get("old")); len(got) != 500<<10 {
					t.Errorf("the agent has %.10q, want the spec that was refused", got)
				}
				a.report("old", "done")
				s.settle()
				if got := h.get("cluster1", "old"); applied(got) != "done" || h.degraded("old") != "" {
					t.Errorf("the source shows %q and Degraded %q", applied(got), h.degraded("old"))
				}
				s.settle()
				if err := work.CheckBudget(a.Agent); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRefusedSpecAfterRestart: an agent with a Store remembers the specs that it has refused. After
// a restart with a larger bound, it requests them. With a smaller bound, it keeps its works.
func TestRefusedSpecAfterRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		h, store := s.source(work.SourceOptions{}), work.NewMemoryStore()
		h.complete()
		a := s.agent(work.AgentOptions{Store: store, MaxSourceBytes: 1 << 20})
		s.settle()
		h.create("cluster1", sized("first", 700<<10))
		s.settle()
		h.create("cluster1", sized("second", 700<<10))
		s.settle()
		a.kill()
		sent := s.countLarge()
		a = s.agent(work.AgentOptions{Store: store, MaxSourceBytes: 1 << 10})
		time.Sleep(10 * time.Minute)
		if got := a.names(); !cmp.Equal(got, []string{"first"}) || h.degraded("second") != "True SpecRefused" ||
			sent.Load() > 0 {
			t.Errorf("with a smaller bound the agent has %v, the source shows %q, and %d large specs were sent", got,
				h.degraded("second"), sent.Load())
		}
		a.kill()
		a = s.agent(work.AgentOptions{Store: store})
		s.settle()
		if got := a.names(); len(got) != 2 {
			t.Errorf("with a larger bound the agent has %v", got)
		}
	})
}

// TestRefusedSpecsAreNotSentAgain: refused specs do not flood the agent's link, neither while other
// works are busy nor during the first list.
func TestRefusedSpecsAreNotSentAgain(t *testing.T) {
	const refused = 10
	fill := func(s *scene, h *hub) {
		for i := range refused {
			h.create("cluster1", sized(fmt.Sprint("large", i), 700<<10))
		}
		s.settle()
	}
	t.Run("busy", func(t *testing.T) {
		inScene(t, func(s *scene) {
			sent := s.countLarge()
			h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{MaxSourceBytes: 512 << 10})
			h.complete()
			h.create("cluster1", newWork("busy", "0"))
			s.settle()
			fill(s, h)
			for i := range 600 {
				h.setValue("cluster1", "busy", fmt.Sprint(i))
				time.Sleep(time.Second)
				a.report("busy", fmt.Sprint(i))
			}
			if n := sent.Load(); n > refused {
				t.Errorf("%d refused specs were sent %d times in 10 min", refused, n)
			}
		})
	})
	t.Run("first list", func(t *testing.T) {
		inScene(t, func(s *scene) {
			sent, h := s.countLarge(), s.source(work.SourceOptions{})
			h.complete()
			fill(s, h)
			h.create("cluster1", newWork("small", "1"))
			s.settle()
			sent.Store(0)
			a := s.agent(work.AgentOptions{MaxSourceBytes: 512 << 10, Sources: []string{"hub"}})
			time.Sleep(10 * time.Minute)
			if n := sent.Load(); n > refused {
				t.Errorf("%d refused specs were sent %d times in 10 min", refused, n)
			}
			// A controller would treat works that the list lacks as deleted.
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			defer cancel()
			if _, err := a.works().List(ctx, metav1.ListOptions{}); !apierrors.IsTimeout(err) ||
				!strings.Contains(err.Error(), "hub") {
				t.Errorf("the first list without the refused works: %v", err)
			}
			for i := range refused {
				h.delete("cluster1", fmt.Sprint("large", i))
			}
			s.settle()
			for range 2 { // works that an earlier process may have applied are cleaned up first
				for i := range refused {
					a.patch(fmt.Sprint("large", i), []byte(`{"metadata":{"finalizers":null}}`))
				}
				s.settle()
			}
			if got := a.names(); !cmp.Equal(got, []string{"small"}) {
				t.Errorf("the agent has %v", got)
			}
		})
	})
}

// TestOnlyFittingSpecsAreRequested: if there is room for one of many refused specs, the agent
// requests only one.
func TestOnlyFittingSpecsAreRequested(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{MaxSourceBytes: 1 << 20})
		h.complete()
		h.create("cluster1", sized("first", 700<<10))
		s.settle()
		for i := range 10 {
			h.create("cluster1", sized(fmt.Sprint("large", i), 700<<10))
		}
		s.settle()
		sent := s.countLarge()
		h.delete("cluster1", "first")
		time.Sleep(5 * time.Minute)
		if n, names := sent.Load(), a.names(); n > 1 || len(names) != 1 {
			t.Errorf("%d large specs were sent, and the agent has %v", n, names)
		}
	})
}

// TestRefusalsAreReported: when many works fill the bounds, each refused work shows the reason, and
// the stored works are confirmed.
func TestRefusalsAreReported(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{MaxSourceBytes: 1 << 20, Sources: []string{"hub"}})
		h.complete()
		s.settle()
		const works = 392
		for i := range works {
			h.create("cluster1", sized(fmt.Sprint("w", i), 1<<10))
		}
		time.Sleep(5 * time.Minute)
		held, refused := len(a.names()), 0
		for i := range works {
			if h.degraded(fmt.Sprint("w", i)) == "True SpecRefused" {
				refused++
			}
			if got := conditionOf(h.get("cluster1", fmt.Sprint("w", i)), work.ConditionDelivered); got != "" {
				t.Fatalf("%d works are held, %d refused; work %d has the condition Delivered %q", held, refused, i, got)
			}
		}
		t.Logf("%d works are held and %d refused", held, refused)
		if held < 250 || held+refused != works || refused == 0 {
			t.Errorf("of %d works %d are held and %d refused", works, held, refused)
		}
	})
}

// TestListWithRefusedSpecs: an agent without AgentOptions.Sources ends its initial sync although
// works are refused on each request.
func TestListWithRefusedSpecs(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		h.complete()
		for i := range 100 {
			h.create("cluster1", sized(fmt.Sprint("w", i), 1<<10))
		}
		s.settle()
		a := s.agent(work.AgentOptions{MaxSourceBytes: 64 << 10})
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
		defer cancel()
		list, err := a.works().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Errorf("the first list: %v", err)
		}
	})
}

// TestForgottenRefusedSpecIsDeleted: a refused work that its source has forgotten is deleted, even
// if the agent now has room for it and lists it as missing.
func TestForgottenRefusedSpecIsDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		options := work.AgentOptions{MaxSourceBytes: 1 << 20, Store: work.NewMemoryStore()}
		h, a := s.source(work.SourceOptions{}), s.agent(options)
		h.complete()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		h.setValue("cluster1", "app", strings.Repeat("x", 1<<20))
		s.settle()
		if got := h.degraded("app"); got != "True SpecRefused" {
			t.Fatalf("the work has the condition Degraded %q", got)
		}
		h.kill()
		a.kill()
		options.MaxSourceBytes = 0
		a = s.agent(options)
		s.settle()
		s.source(work.SourceOptions{}).complete()
		s.settleProcesses()
		a.setFinalizers("app")
		s.settle()
		if got := a.names(); len(got) != 0 {
			t.Errorf("the agent still has %v", got)
		}
	})
}

// TestListEndsWithoutRoomForReports: the wait for a source that is not in AgentOptions.Sources
// ends, even if the agent has no room to report which works it refuses. The source sends these
// works repeatedly, also unrequested.
func TestListEndsWithoutRoomForReports(t *testing.T) {
	inScene(t, func(s *scene) {
		options := work.AgentOptions{MaxSourceBytes: 128 << 10}
		h, a := s.source(work.SourceOptions{}), s.agent(options)
		h.complete()
		s.settle()
		h.create("cluster1", sized("a", 60<<10))
		h.create("cluster1", sized("b", 55<<10))
		s.settle()
		for i := range 20 {
			h.create("cluster1", sized(fmt.Sprint("c", i), 10<<10))
		}
		s.settle()
		h.delete("cluster1", "a")
		a.kill()
		s.settle()
		a = s.agent(options)
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		if _, err := a.works().List(ctx, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// TestBundleRefusedSpec: peers of the profile ManifestBundle receive a list of all works every
// ResyncInterval. A refused spec is sent only once while the agent has no room.
func TestBundleRefusedSpec(t *testing.T) {
	inScene(t, func(s *scene) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		h := s.source(work.SourceOptions{Profile: codec.ManifestBundle})
		a := s.agent(work.AgentOptions{Profile: codec.ManifestBundle, Sources: []string{"hub"}, MaxSourceBytes: 1 << 20})
		h.complete()
		s.settle()
		h.create("cluster1", sized("first", 700<<10))
		s.settle()
		sent := s.countLarge()
		h.create("cluster1", sized("second", 700<<10))
		time.Sleep(25 * time.Minute)
		if got := h.degraded("second"); got != "True SpecRefused" || sent.Load() > 1 {
			t.Errorf("the work has the condition Degraded %q, and was sent %d times", got, sent.Load())
		}
		h.delete("cluster1", "first")
		time.Sleep(11 * time.Minute)
		if got := a.names(); !cmp.Equal(got, []string{"second"}) {
			t.Errorf("the agent has %v", got)
		}
	})
}

// TestRandomSpecsWithinBounds: with any refusals, the counted bytes match the stored data and stay
// within the bound. In the end an agent has all works that fit.
func TestRandomSpecsWithinBounds(t *testing.T) {
	const bound = 128 << 10
	for seed := range uint64(20) {
		inScene(t, func(s *scene) {
			random := rand.New(rand.NewPCG(seed, 7))
			var lossy atomic.Bool
			s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
				if !lossy.Load() || rand.IntN(10) > 0 { // from several goroutines
					deliver(m)
				}
			})
			options := work.AgentOptions{MaxSourceBytes: bound, TombstoneTTL: time.Minute}
			if seed%2 == 0 {
				options.Store = work.NewMemoryStore()
			}
			h, a := s.source(work.SourceOptions{}), s.agent(options)
			h.complete()
			s.settle()
			lossy.Store(true)
			want := map[string]string{}
			serve := func() {
				list, err := h.works("cluster1").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range list.Items {
					if w.DeletionTimestamp != nil {
						a.setFinalizers(w.Name)
					}
				}
			}
			for range 40 {
				name := fmt.Sprint("w", random.IntN(8))
				value := strings.Repeat(string(rune('a'+random.IntN(26))), 1+random.IntN(60<<10))
				_, err := h.works("cluster1").Get(t.Context(), name, metav1.GetOptions{})
				switch _, known := want[name]; {
				case known && random.IntN(3) == 0:
					h.delete("cluster1", name)
					delete(want, name)
				case known:
					h.setValue("cluster1", name, value)
					want[name] = value
				case err != nil:
					h.create("cluster1", newWork(name, value))
					want[name] = value
				}
				if random.IntN(10) == 0 {
					a.kill()
					a = s.agent(options)
				}
				serve()
				time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				if used := work.StateOfAgent(a.Agent).Bytes; used > bound+8<<10 { // names of sources are counted too
					t.Errorf("seed %d: %d bytes are counted", seed, used)
				}
			}
			lossy.Store(false)
			for size, name := 0, 0; name < 8; name++ {
				if value, ok := want[fmt.Sprint("w", name)]; ok {
					if size += len(value) + 4<<10; size > bound-bound/16 {
						h.delete("cluster1", fmt.Sprint("w", name))
						delete(want, fmt.Sprint("w", name))
					}
				}
			}
			for range 5 {
				serve()
				time.Sleep(time.Minute)
			}
			serve()
			s.settle()
			for _, name := range a.names() { // reports of an earlier process without a Store stay until then
				a.report(name, "done")
			}
			s.settle()
			got := map[string]string{}
			list, err := a.works().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				got[list.Items[i].Name] = valueOf(t, &list.Items[i])
			}
			for name := range want {
				if degraded := h.degraded(name); degraded != "" || got[name] != want[name] {
					t.Errorf("seed %d: the agent has work %s with %d bytes, want %d; Degraded is %q", seed, name, len(got[name]),
						len(want[name]), degraded)
				}
			}
			if len(got) != len(want) {
				t.Errorf("seed %d: the agent has %d works, want %d", seed, len(got), len(want))
			}
			if err := work.CheckBudget(a.Agent); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}
