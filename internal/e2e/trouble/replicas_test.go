// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// replica starts one of the replicas of the source "hub".
func (s *scene) replica(store work.SharedStore) *hub {
	s.t.Helper()
	return s.source(work.SourceOptions{SharedGroup: "hubs", Store: store})
}

// replicated is a source of two replicas, and its clusters with ten works each.
type replicated struct {
	*scene
	store    work.SharedStore
	one, two *hub // both must show the same works; one is the first leader
	spokes   []*spoke
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	r := &replicated{scene: newScene(t, mosquitto.Options{}), store: work.NewMemoryStore()}
	r.one, r.two = r.replica(r.store), r.replica(r.store)
	r.one.inventoryComplete()
	for i := range 3 {
		a := r.agent(work.AgentOptions{ClusterName: fmt.Sprintf("c%d", i), Sources: []string{"hub"}})
		r.spokes = append(r.spokes, a)
		for w := range 10 {
			r.one.create(a.cluster, fmt.Sprintf("w%d", w), "1")
		}
		shows(t, a.cluster, a.works(), ten("1", ""))
	}
	return r
}

// ten returns the state of a cluster with ten works that all have the same value and status.
func ten(value, status string) string {
	var out []string
	for w := range 10 {
		out = append(out, fmt.Sprintf("w%d=%s/%s", w, value, status))
	}
	return join(out)
}

func (r *replicated) reportAll(message string) {
	r.t.Helper()
	for _, a := range r.spokes {
		for w := range 10 {
			a.report(fmt.Sprintf("w%d", w), message)
		}
	}
}

func (r *replicated) bothShow(what, want string) {
	r.t.Helper()
	for _, a := range r.spokes {
		shows(r.t, "the first replica "+what, r.one.works(a.cluster), want)
		shows(r.t, "the second replica "+what, r.two.works(a.cluster), want)
	}
}

// TestTrouble08ReplicasLoseLinks: two replicas share a source, and the broker distributes the
// events between them. Their links break while events are in transit. Both show every event.
func TestTrouble08ReplicasLoseLinks(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.reportAll("first")
	r.bothShow("to begin with", ten("1", "first"))
	for name, h := range map[string]*hub{"the standby": r.two, "the writer": r.one} {
		h.proxy.Stall() // messages from the broker stay in transit
		r.reportAll("on its way to " + name)
		h.proxy.Cut()
		h.proxy.Resume()
		r.bothShow("after a loss", ten("1", "on its way to "+name))
	}
	random := rand.New(rand.NewPCG(11, 12))
	for round := range 12 {
		for w := range 10 {
			for _, a := range r.spokes {
				a.report(fmt.Sprintf("w%d", w), fmt.Sprint(round))
			}
			if w == random.IntN(10) {
				[]*hub{r.one, r.two}[random.IntN(2)].proxy.Cut()
			}
		}
	}
	r.bothShow("after broken links", ten("1", "11"))
}

// TestTrouble08ReplicaTakesOver: the leader dies, and another replica takes over and misses
// nothing. Then a third replica takes over from the second.
func TestTrouble08ReplicaTakesOver(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.one.proxy.Block()
	r.one.proxy.Cut()
	r.reportAll("while nobody writes")
	r.one.stop()
	if err := r.two.Lead(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.one = r.replica(r.store)
	r.bothShow("after the first has died", ten("1", "while nobody writes"))
	r.reportAll("while the second writes")
	r.bothShow("while the second writes", ten("1", "while the second writes"))
	for _, a := range r.spokes {
		for w := range 10 {
			r.one.set(a.cluster, fmt.Sprintf("w%d", w), "2") // becomes leader with this write
		}
		shows(t, a.cluster, a.works(), ten("2", "while the second writes"))
	}
	for _, a := range r.spokes {
		r.two.delete(a.cluster, "w0")
	}
	r.bothShow("after a deletion",
		strings.TrimPrefix(ten("2", "while the second writes"), "w0=2/while the second writes "))
}
