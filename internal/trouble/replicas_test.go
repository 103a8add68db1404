// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/mosquitto"
)

// replica starts one of the processes that are the source "hub".
func (s *scene) replica(store work.SharedStore) *hub {
	s.t.Helper()
	return s.source(work.SourceOptions{SharedGroup: "hubs", Store: store})
}

// TestTrouble08Replicas: two replicas share a source and the broker deals the events out between them. Both show all of
// it; links break and the one that writes dies, and nothing is lost.
func TestTrouble08Replicas(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	store := work.NewMemoryStore()
	one, two := s.replica(store), s.replica(store)
	var spokes []*spoke
	for i := range 3 {
		a := s.agent(work.AgentOptions{ClusterName: fmt.Sprintf("c%d", i), Sources: []string{"hub"}})
		spokes = append(spokes, a)
		for w := range 10 {
			one.create(a.cluster, fmt.Sprintf("w%d", w), "1")
		}
	}
	both := func(what string, report func(cluster string) string) {
		t.Helper()
		for _, a := range spokes {
			shows(t, "the first replica "+what, one.works(a.cluster), report(a.cluster))
			shows(t, "the second replica "+what, two.works(a.cluster), report(a.cluster))
		}
	}
	ten := func(value, status string) func(string) string {
		return func(string) string {
			var out []string
			for w := range 10 {
				out = append(out, fmt.Sprintf("w%d=%s/%s", w, value, status))
			}
			return join(out)
		}
	}
	reportAll := func(message string) {
		for _, a := range spokes {
			eventually(t, a.cluster, func() string {
				got := state(t, a.works())
				return unless(strings.Count(got, "=1/") == 10, "it has "+got)
			})
			for w := range 10 {
				a.report(fmt.Sprintf("w%d", w), message)
			}
		}
	}
	reportAll("first")
	both("", ten("1", "first"))

	// Whoever's link breaks has events under way that nobody acknowledges.
	random := rand.New(rand.NewPCG(11, 12))
	for round := range 12 {
		for w := range 10 {
			for _, a := range spokes {
				a.report(fmt.Sprintf("w%d", w), fmt.Sprint(round))
			}
			if w == random.IntN(10) {
				[]*hub{one, two}[random.IntN(2)].proxy.Cut()
			}
		}
	}
	both("after broken links", ten("1", "11"))

	// What the broker has given to a replica is on its way when the link breaks.
	for name, h := range map[string]*hub{"standby": two, "writer": one} {
		h.proxy.Stall()
		reportAll("on its way to " + name)
		h.proxy.Cut()
		h.proxy.Resume()
		both("after a loss", ten("1", "on its way to "+name))
	}

	one.proxy.Block()
	one.proxy.Cut()
	reportAll("while nobody writes")
	one.stop()
	if err := two.Lead(t.Context()); err != nil {
		t.Fatal(err)
	}
	reportAll("while the second writes")
	three := s.replica(store)
	one = three
	both("after the first has died", ten("1", "while the second writes"))
	for _, a := range spokes {
		for w := range 10 {
			three.set(a.cluster, fmt.Sprintf("w%d", w), "2") // which takes the writing over
		}
		shows(t, a.cluster, a.works(), ten("2", "while the second writes")(a.cluster))
	}
	for _, a := range spokes {
		two.delete(a.cluster, "w0")
	}
	for _, a := range spokes {
		eventually(t, "the deletion on both", func() string {
			left := slices.Concat(strings.Fields(state(t, three.works(a.cluster))), strings.Fields(state(t, two.works(a.cluster))))
			return unless(!slices.ContainsFunc(left, func(w string) bool { return strings.HasPrefix(w, "w0=") || strings.HasPrefix(w, "-w0=") }), join(left))
		})
	}
}
