// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// rooms runs a broker that gives each source and cluster exactly the rights that ACCESS.md lists.
func rooms(t *testing.T, sources, clusters []string) *scene {
	t.Helper()
	page, err := os.ReadFile("../../../cloudevents/work/ACCESS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, access, _ := strings.Cut(string(page), "\n```\n")
	access, _, _ = strings.Cut(access, "\n```\n")
	section := map[string]string{}
	user := ""
	for line := range strings.Lines(access) {
		if name, is := strings.CutPrefix(line, "user "); is {
			user = strings.TrimSpace(name)
		}
		section[user] += strings.TrimSpace(line) + "\n"
	}
	users := map[string]string{"tap": "tap"}
	acl := "user tap\ntopic readwrite #\n"
	for like, names := range map[string][]string{"hub": sources, "cluster1": clusters} {
		if strings.Count(section[like], "topic ") != 7 {
			t.Fatalf("ACCESS.md has for %s: %q", like, section[like])
		}
		for _, name := range names {
			users[name] = name
			acl += "\n" + strings.ReplaceAll(section[like], like, name)
		}
	}
	s := newScene(t, mosquitto.Options{Users: users, ACL: acl})
	s.tapUser = "tap"
	return s
}

func as(user string) mqtt.Options { return mqtt.Options{Username: user, Password: user} }

// TestTrouble09Rooms: everything works with the rights of ACCESS.md. A client with the rights of
// one cluster can neither publish for another cluster nor receive its messages.
func TestTrouble09Rooms(t *testing.T) {
	t.Parallel()
	s := rooms(t, []string{"hub", "team"}, []string{"cluster1", "cluster2"})
	wire := newTap(s, func(h heard) { ownTopic(t, h) })
	store := work.NewMemoryStore()
	team := func() *hub {
		return s.source(work.SourceOptions{SourceID: "team", SharedGroup: "replicas", Store: store}, as("team"))
	}
	hubs := []*hub{s.source(work.SourceOptions{}, as("hub")), team()}
	second := team()
	for _, h := range hubs {
		h.inventoryComplete()
	}
	var spokes []*spoke
	for _, cluster := range []string{"cluster1", "cluster2"} {
		a := s.agent(work.AgentOptions{ClusterName: cluster, Sources: []string{"hub", "team"}}, as(cluster))
		a.apply()
		spokes = append(spokes, a)
	}
	everywhere := func(what, want string) {
		t.Helper()
		for _, a := range spokes {
			for _, h := range append(hubs, second) {
				mine := h.id + "-" + strings.ReplaceAll(want, " ", " "+h.id+"-")
				shows(t, what+": "+h.id+" on "+a.cluster, h.works(a.cluster), mine)
			}
		}
	}
	for _, a := range spokes {
		for _, h := range hubs {
			h.create(a.cluster, h.id+"-a", "1")
			h.create(a.cluster, h.id+"-b", "1")
		}
	}
	everywhere("created", "a=1/1 b=1/1")
	s.broker.Kill()
	for _, a := range spokes {
		for _, h := range hubs {
			h.set(a.cluster, h.id+"-a", "2")
			h.delete(a.cluster, h.id+"-b")
		}
	}
	s.broker.Restart()
	everywhere("after the broker's restart", "a=2/2")
	curious := s.overhear("cluster2")
	hubs[0].crash()
	hubs[0] = s.source(work.SourceOptions{}, as("hub"))
	for _, a := range spokes {
		hubs[0].create(a.cluster, "hub-a", "3")
		hubs[1].set(a.cluster, "team-a", "3")
	}
	hubs[0].inventoryComplete()
	everywhere("after the source's restart", "a=3/3")
	spokes[0].crash()
	spokes[0] = s.agent(work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub", "team"}}, as("cluster1"))
	shows(t, "the agent after its restart", spokes[0].works(), "hub-a=3/ team-a=3/")
	for _, c := range []*client{hubs[0].client, hubs[1].client, second.client, spokes[0].client, spokes[1].client} {
		for line := range strings.Lines(c.log.String()) {
			early := strings.Contains(line, `reason="over_budget"`) // a list within a second of others, because of the restarts
			if strings.Contains(line, "Failed to publish an event") || strings.Contains(line, "Refused an event") && !early {
				t.Errorf("not everything was allowed:\n%s", c.log)
			}
		}
	}
	curious.check("cluster2", wire.that(func(h heard) bool { return strings.Contains(h.topic, "/cluster1/") }))
}

// listener records the topics of the messages that one user receives, with any subscription.
type listener struct {
	raw    *raw
	mu     sync.Mutex
	topics map[string]int
}

func (s *scene) overhear(user string) *listener {
	s.t.Helper()
	l := &listener{topics: map[string]int{}}
	client, err := dialRaw(s.t, s.broker.Addr(), user, func(m *paho.Publish) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.topics[m.Topic]++
	}, "#")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.close)
	l.raw = client
	return l
}

// check checks that a cluster can publish no message of others, and has received none.
func (l *listener) check(cluster string, others []heard) {
	t := l.raw.t
	t.Helper()
	for _, h := range others {
		if reason := l.raw.publish(h.topic, h.payload); reason != 0x87 {
			t.Errorf("%s wrote to %s: reason %d", cluster, h.topic, reason)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic := range l.topics {
		if !strings.Contains(topic, "/"+cluster+"/") && !strings.Contains(topic, "/resync/clusters/") {
			t.Errorf("%s heard %s", cluster, topic)
		}
	}
	if l.topics[fmt.Sprintf("/sources/hub/clusters/%s/manifests", cluster)] == 0 {
		t.Errorf("%s heard nothing: %v", cluster, l.topics)
	}
}

// forgery is an event that a user may publish, about another user's works.
type forgery struct {
	name, user string
	topic      string // the topic of the event, if it is not the right one
	message    codec.Message
	victim     *client
	edit       map[string]any
}

// TestTrouble09Contradictions: with the rights of one cluster or source, a client publishes events
// about another. The events are refused and logged, and change nothing.
func TestTrouble09Contradictions(t *testing.T) {
	t.Parallel()
	s := rooms(t, []string{"hub", "evil"}, []string{"cluster1", "cluster2"})
	wire := newTap(s, nil)
	h := s.source(work.SourceOptions{}, as("hub"))
	a := s.agent(work.AgentOptions{}, as("cluster1"))
	a.apply()
	h.create("cluster1", "app", "1")
	h.create("cluster2", "app", "1")
	shows(t, "the source", h.works("cluster1"), "app=1/1")
	said := wire.hears("the status", func(m heard) bool { return m.status() != nil && m.status().Status != nil }).status()
	atSource, atAgent := h.get("cluster1", "app").ResourceVersion, state(t, a.works())
	for _, tc := range forgeries(said, h.client, a.client) {
		t.Run(tc.name, func(t *testing.T) {
			forger, err := dialRaw(t, s.broker.Addr(), tc.user, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer forger.close()
			topic, payload := encode(t, tc.message)
			if tc.topic != "" {
				topic = tc.topic
			}
			payload = edited(t, payload, tc.edit)
			if reason := forger.publish(topic, payload); reason != 0 {
				t.Fatalf("the broker refused it: %d", reason)
			}
			eventually(t, "the refusal in the log", func() string {
				return unless(tc.victim.log.has("Refused an event", topic), tc.victim.log.String())
			})
			tc.victim.log.forget()
		})
	}
	if got := h.get("cluster1", "app"); got.ResourceVersion != atSource {
		t.Errorf("the source's work has changed: %+v", got)
	}
	if got := state(t, a.works()); got != atAgent {
		t.Errorf("the agent shows %q, before %q", got, atAgent)
	}
}

// forgeries returns forged events about the work of a status.
func forgeries(said *codec.Status, source, agent *client) []forgery {
	header := codec.Header{ID: "forged", Source: "hub", Cluster: "cluster1", Agent: "cluster1-work-agent"}
	ref := codec.WorkRef{ResourceID: said.ResourceID, Version: said.Version + 5, UID: said.UID, Name: "app"}
	in := func(h codec.Header, source, cluster string) codec.Header {
		h.Source, h.Cluster = source, cluster
		return h
	}
	own := func(source, cluster string) codec.WorkRef { // the codec would not make an invalid reference
		return codec.WorkRef{ResourceID: codec.ResourceID(source, cluster, "app"), Version: ref.Version, UID: ref.UID,
			Name: "app"}
	}
	bare := ref
	bare.UID, bare.Name = "", ref.ResourceID
	status := &workv1.ManifestWorkStatus{}
	status.Conditions = append(status.Conditions, said.Status.Conditions...)
	status.Conditions[0].Message = "forged"
	spec := codec.Header{ID: "forged", Source: "hub", Cluster: "cluster1"}
	return []forgery{
		{"status of another cluster", "cluster2", "/sources/hub/clusters/cluster2/manifestsstatus",
			&codec.Status{Header: header, WorkRef: ref, SequenceID: said.SequenceID + 1, Status: status}, source, nil},
		{"status of another cluster's work", "cluster2", "",
			&codec.Status{Header: in(header, "hub", "cluster2"), WorkRef: own("hub", "cluster2"), SequenceID: said.SequenceID +
				1, Status: status},
			source, map[string]any{"specresourceid": ref.ResourceID}},
		{"the same from a strict agent", "cluster2", "",
			&codec.Status{Header: in(header, "hub", "cluster2"), WorkRef: bare, Status: status}, source, nil},
		{"list of another cluster", "cluster2", "/sources/resync/cluster2/manifests",
			&codec.SpecResync{Header: header, Broadcast: true, AgentSession: "x"}, source, nil},
		{"list for another source", "cluster2", "/sources/hub/clusters/cluster2/specresync",
			&codec.SpecResync{Header: in(header, "evil", "cluster2"), AgentSession: "x"}, source,
			map[string]any{"targetsource": "evil"}},
		{"spec of another source", "evil", "/sources/evil/clusters/cluster1/manifests",
			&codec.Spec{Header: spec, WorkRef: ref, Work: newWork("app", "forged")}, agent, nil},
		{"spec of another source's work", "evil", "",
			&codec.Spec{Header: in(spec, "evil", "cluster1"), WorkRef: own("evil", "cluster1"), Work: newWork("app", "forged")},
			agent, map[string]any{"resourceid": ref.ResourceID}},
		{"request of another source", "evil", "/sources/evil/resync/clusters/manifestsstatus",
			&codec.StatusResync{Header: in(spec, "hub", ""), Broadcast: true}, agent, nil},
	}
}
