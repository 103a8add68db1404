// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// storm kills the broker a number of times and restarts it on the same port. meanwhile is called
// while the broker is down. After the restart, links are cut at random.
func (s *scene) storm(rounds int, links []*client, meanwhile func(round int)) {
	s.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		s.broker.Kill()
		meanwhile(round)
		s.broker.Restart()
		for range len(links)/3 + 1 {
			links[random.IntN(len(links))].proxy.Cut()
		}
	}
	for _, c := range links {
		c.connected()
	}
}

// TestTrouble01ManySources: five sources share an agent through reconnect storms, a restart without
// a store, and later deletions. The agent receives exactly the writes of a work's own source, in
// order. Works that no source changes are not touched.
func TestTrouble01ManySources(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	wire := newTap(s, func(h heard) { ownTopic(t, h) })
	a := s.agent(work.AgentOptions{})
	spy := spyOn(t, a.works())
	a.apply()
	links := []*client{a.client}
	var hubs []*hub
	for i := range 5 {
		h := s.source(work.SourceOptions{SourceID: fmt.Sprintf("s%d", i)})
		hubs, links = append(hubs, h), append(links, h.client)
		for _, name := range []string{"steady", "moving", "fleeting"} {
			h.create("cluster1", h.id+"-"+name, "0")
		}
	}
	for _, h := range hubs {
		shows(t, h.id+" before the storm", h.works("cluster1"),
			fmt.Sprintf("%[1]s-fleeting=0/0 %[1]s-moving=0/0 %[1]s-steady=0/0", h.id))
		h.inventoryComplete()
	}
	for _, h := range hubs {
		wire.hears("the agent's list for "+h.id, func(m heard) bool {
			l := m.list()
			return l != nil && l.TargetSource == h.id && l.Header.Source == h.id && !l.Broadcast
		})
	}
	steadyBefore := len(allOf(spy, "-steady"))

	s.storm(3, links, func(round int) {
		for _, h := range hubs {
			h.set("cluster1", h.id+"-moving", fmt.Sprint(round+1))
			h.create("cluster1", fmt.Sprintf("%s-new%d", h.id, round), "0")
			if round == 1 {
				h.delete("cluster1", h.id+"-fleeting")
			}
		}
	})
	for _, h := range hubs {
		want := fmt.Sprintf("%[1]s-moving=3/3 %[1]s-new0=0/0 %[1]s-new1=0/0 %[1]s-new2=0/0 %[1]s-steady=0/0", h.id)
		shows(t, h.id+" after the storm", h.works("cluster1"), want)
	}

	hubs[0].crash()
	hubs[0] = s.source(work.SourceOptions{SourceID: "s0"})
	hubs[0].create("cluster1", "s0-steady", "0")
	hubs[0].inventoryComplete()
	want := []string{"s0-steady=0/0"}
	for _, h := range hubs[1:] {
		want = append(want, state(t, h.works("cluster1")))
	}
	shows(t, "the agent after s0 has lost its works", a.works(), strings.Join(want, " "))
	shows(t, "s0 after it has lost its works", hubs[0].works("cluster1"), "s0-steady=0/0")

	if got := allOf(spy, "-steady"); len(got) != steadyBefore {
		t.Errorf("works that nobody touched were touched: %v", got[steadyBefore:])
	}
	for _, h := range hubs {
		checkCourse(t, spy, h.id)
	}
}

// ownTopic checks that a message on the topic of one source, or for one source, is about that
// source's works.
func ownTopic(t *testing.T, h heard) {
	m, ok := strings.CutPrefix(h.topic, "/sources/")
	if strings.HasSuffix(h.topic, "/presence") {
		return // about the processes of one ID
	}
	if !ok {
		t.Errorf("on the wire: topic %s", h.topic)
		return
	}
	source, _, _ := strings.Cut(m, "/")
	switch {
	case h.spec() != nil && !ownID(source, h.spec().Cluster, h.spec().WorkRef):
		t.Errorf("on %s: a spec of %+v", h.topic, h.spec().WorkRef)
	case h.status() != nil && !ownID(source, h.status().Cluster, h.status().WorkRef):
		t.Errorf("on %s: a status of %+v", h.topic, h.status().WorkRef)
	case h.list() != nil && !h.list().Broadcast:
		for _, e := range h.list().Entries {
			if e.Source != source {
				t.Errorf("on %s: an entry of source %s", h.topic, e.Source)
			}
		}
	}
}

// ownID reports whether the resource ID is that of the source's work. The name of a tombstone is
// unknown.
func ownID(source, cluster string, w codec.WorkRef) bool {
	return w.Name == w.ResourceID || codec.ResourceID(source, cluster, w.Name) == w.ResourceID
}

// allOf returns the events of works with a name that ends in suffix.
func allOf(s *spy, suffix string) []seen {
	return slices.DeleteFunc(s.now().of(""), func(e seen) bool { return !strings.HasSuffix(e.name, suffix) })
}

// checkCourse checks that the agent saw the additions, changes and deletions of a source's works in
// the source's order, each state once.
func checkCourse(t *testing.T, s *spy, source string) {
	t.Helper()
	last := map[string]string{}
	for _, e := range s.now().of(source + "-") {
		if e.kind == watch.Deleted && !strings.HasSuffix(e.name, "-fleeting") && source != "s0" {
			t.Errorf("deleted, though %s did not say so: %v", source, e)
		}
		if e.kind == watch.Added && last[e.name] != "" {
			t.Errorf("added again: %v", e)
		}
		if e.value < last[e.name] {
			t.Errorf("%v after the value %s", e, last[e.name])
		}
		last[e.name] = e.value
	}
	if diff := cmp.Diff([]string{"0", "3"},
		[]string{first(s.values(source + "-moving")), last[source+"-moving"]}); diff != "" {
		t.Errorf("the moving work of %s (-want +got):\n%s", source, diff)
	}
}

// TestTrouble01ManyAgents: thirty agents share a source through reconnect storms. Each agent has
// its own works, and receives deletions that were made while all were disconnected.
func TestTrouble01ManyAgents(t *testing.T) {
	t.Parallel()
	const agents = 30
	s := newScene(t, mosquitto.Options{})
	newTap(s, func(h heard) {
		ownTopic(t, h)
		if l := h.hashes(); l != nil && l.Broadcast && len(l.Entries) > 0 {
			t.Errorf("on %s: %d hashes for everybody", h.topic, len(l.Entries))
		}
	})
	h := s.source(work.SourceOptions{})
	h.inventoryComplete()
	links := []*client{h.client}
	var spokes []*spoke
	for i := range agents {
		a := s.newAgent(work.AgentOptions{ClusterName: fmt.Sprintf("c%02d", i), Sources: []string{"hub"}})
		a.start(a.Agent)
		a.apply()
		spokes, links = append(spokes, a), append(links, a.client)
		for _, name := range []string{"steady", "moving", "fleeting"} {
			h.create(a.cluster, name, a.cluster+":0")
		}
	}
	before := "fleeting=%[1]s:0/%[1]s:0 moving=%[1]s:0/%[1]s:0 steady=%[1]s:0/%[1]s:0"
	for _, a := range spokes {
		shows(t, "the source before the storm", h.works(a.cluster), fmt.Sprintf(before, a.cluster))
	}
	var spies []*spy
	for _, a := range spokes {
		spies = append(spies, spyOn(t, a.works()))
	}
	s.storm(3, links, func(round int) {
		for _, a := range spokes {
			h.set(a.cluster, "moving", fmt.Sprintf("%s:%d", a.cluster, round+1))
			if round == 1 {
				h.delete(a.cluster, "fleeting")
				h.create(a.cluster, "new", a.cluster+":0")
			}
		}
	})
	after := "moving=%[1]s:3/%[1]s:3 new=%[1]s:0/%[1]s:0 steady=%[1]s:0/%[1]s:0"
	for i, a := range spokes {
		shows(t, "the source after the storm", h.works(a.cluster), fmt.Sprintf(after, a.cluster))
		shows(t, a.cluster+" after the storm", a.works(), fmt.Sprintf(after, a.cluster))
		if got := spies[i].now().of("steady"); len(got) != 1 {
			t.Errorf("%s: a work that nobody touched was touched: %v", a.cluster, got)
		}
	}
}
