// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// TestEnhancementSimulation runs an enhancement agent and an enhancement source, which have only
// the attributes of the enhancement, among our own. The verification follows after two resyncs of
// all processes.
func TestEnhancementSimulation(t *testing.T) {
	simulate(t, 4, func(t *testing.T, seed uint64, count *tally) {
		f := newFleet(t, seed, codec.ManifestWork, count, func(tr *config) {
			tr.Clocks, tr.Bad, tr.Small, tr.Named, tr.Silent = false, false, false, false, true
		})
		a, s := f.newEnhancementAgent(), f.newEnhancementSource()
		for range 60 + f.random.IntN(60) {
			switch n := f.random.IntN(20); {
			case n < 4:
				s.change()
			case n == 4:
				s.restart()
			case n == 5:
				s.connect()
			case n == 6:
				a.connect()
			default:
				f.step()
			}
			f.inspect()
		}
		f.endFaults()
		f.serveAll() // works that wait for a clean-up are older than the results of the resyncs
		for range 2 {
			f.waitRepair()
			a.connect()
			s.connect()
			time.Sleep(15 * time.Second)
		}
		f.serveAll()
		s.excuse()
		f.verifyEnhancementAgent(a)
		f.verifyEnhancementSource(s)
		for _, c := range f.clusters {
			f.verifyCluster(c)
		}
	})
}

// enhancementPeer is the connection of an enhancement peer, and all connections that replace it. It
// sends each message only once.
type enhancementPeer struct {
	fleet   *fleet
	link    *link
	filters []string
	receive func(codec.Message)
	hello   func() codec.Message // first message of each connection

	mu   sync.Mutex // guards conn and the fields of the embedding peer
	conn cloudevents.Conn
	sent int
	last time.Time // time of the last event
}

// connect ends the connection and connects again.
func (p *enhancementPeer) connect() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	conn, err := p.link.transport(p.fleet.bus.Transport()).Connect(p.fleet.t.Context(), cloudevents.ConnectOptions{
		Filters: p.filters,
		Receive: func(m cloudevents.Message) {
			if msg, err := codec.ManifestWork.Decode(m.Topic, m.Event); err == nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.receive(msg)
			}
		},
		Refuse: func(string, error) {},
	})
	if err != nil {
		return // no connection is possible: the peer stays disconnected until the next attempt
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	p.fleet.t.Cleanup(func() { _ = conn.Close() })
	p.send(p.hello())
}

func (p *enhancementPeer) send(m codec.Message) {
	p.sent++
	p.last = p.last.Add(time.Microsecond) // only the times of events order them, so no two times may be equal
	if now := time.Now().UTC(); now.After(p.last) {
		p.last = now
	}
	m.Head().ID, m.Head().Time = fmt.Sprint(p.sent), p.last
	topic, event, err := codec.ManifestWork.Encode(m)
	if err != nil {
		p.fleet.t.Error(err)
		return
	}
	if p.conn != nil {
		_ = p.conn.Publish(p.fleet.t.Context(), cloudevents.Message{Topic: topic, Event: event}, nil)
	}
}

// enhancementAgent is an agent as the enhancement describes it. It applies each spec immediately.
type enhancementAgent struct {
	enhancementPeer
	owner *owner // owner of its works
	works map[string]*enhancementWork
}

type enhancementWork struct {
	version int64
	source  string
	value   string
	report  string
	gone    bool
}

const enhancementCluster = "enhancement"

func (f *fleet) newEnhancementAgent() *enhancementAgent {
	a := &enhancementAgent{owner: f.owners[0], works: map[string]*enhancementWork{}}
	a.enhancementPeer = enhancementPeer{
		fleet: f, link: newLink(enhancementCluster, f.faults), hello: a.list, receive: a.take,
		filters: []string{"/sources/+/clusters/enhancement/manifests", "/sources/+/resync/clusters/manifestsstatus"},
	}
	f.enhancementCluster = f.newCluster(enhancementCluster)
	a.owner.clusters = append(a.owner.clusters, f.enhancementCluster)
	a.connect()
	return a
}

// list returns the list of the agent, without sources and incarnations.
func (a *enhancementAgent) list() codec.Message {
	list := &codec.SpecResync{Header: codec.Header{Cluster: enhancementCluster, Agent: "enhancement-agent"}, Broadcast: true}
	for id, w := range a.works {
		if !w.gone {
			list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: id, Version: w.version})
		}
	}
	return list
}

func (a *enhancementAgent) take(m codec.Message) {
	switch m := m.(type) {
	case *codec.Spec:
		a.takeSpec(m)
	case *codec.StatusResync:
		if m.Cluster != "" && m.Cluster != enhancementCluster {
			return
		}
		for _, e := range m.Entries {
			if w := a.works[e.ResourceID]; w != nil {
				a.report(e.ResourceID, w)
			}
		}
		for id, w := range a.works {
			if len(m.Entries) == 0 && w.source == m.Source && !w.gone {
				a.report(id, w)
			}
		}
	}
}

func (a *enhancementAgent) takeSpec(m *codec.Spec) {
	w := a.works[m.ResourceID]
	if w == nil {
		w = &enhancementWork{source: m.Source}
		a.works[m.ResourceID] = w
	}
	if m.Version < w.version {
		return
	}
	w.version, w.gone = m.Version, m.DeletionTimestamp != nil
	if !w.gone {
		w.value = worktest.Value(a.fleet.t, m.Work)
		w.report = w.value + " " + a.fleet.value(nil, "")
	}
	a.report(m.ResourceID, w)
}

func (a *enhancementAgent) report(id string, w *enhancementWork) {
	status := &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied", Message: w.report,
		LastTransitionTime: metav1.Now(),
	}}}
	if w.gone {
		gone := metav1.Condition{Type: codec.ConditionDeleted, Status: metav1.ConditionTrue}
		status.Conditions = append(status.Conditions, gone)
	}
	a.send(&codec.Status{
		Header:  codec.Header{Source: w.source, Cluster: enhancementCluster, Agent: "enhancement-agent"},
		WorkRef: codec.WorkRef{ResourceID: id, Version: w.version}, Status: status,
	})
}

// verifyEnhancementAgent compares the owner's wishes with the agent's works and the statuses that
// the source shows.
func (f *fleet) verifyEnhancementAgent(a *enhancementAgent) {
	want, held, seen := map[string]string{}, map[string]string{}, map[string]string{}
	ids := map[string]string{}
	for _, w := range a.owner.wants {
		if w.cluster == enhancementCluster {
			want[w.name] = w.Value
			ids[f.profile.ResourceID(w.owner, w.cluster, w.name)] = w.name
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, w := range a.works {
		if !w.gone && (ids[id] != "" || !f.excusesWork(w.value)) {
			held[ids[id]] = w.value
		}
	}
	list, err := a.owner.works(enhancementCluster).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		seen[list.Items[i].Name], _ = reported(&list.Items[i])
	}
	if diff := cmp.Diff(want, held); diff != "" {
		f.t.Errorf("the enhancement agent has other works than its owner wants (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		f.t.Errorf("%s sees other statuses of the enhancement agent (-want +got):\n%s", a.owner.id, diff)
	}
}

// enhancementSource is a source as the enhancement describes it. Its versions count the writes of a
// process.
type enhancementSource struct {
	enhancementPeer
	owner   *owner // only for the records of the fleet
	works   map[string]*ownWork
	highest map[string]int64 // versions by key, of all processes
}

type ownWork struct {
	*wish
	version int64
	deleted *metav1.Time
	status  *workv1.ManifestWorkStatus
	at      time.Time
}

const enhancementHub = "enhancement-hub"

func (f *fleet) newEnhancementSource() *enhancementSource {
	s := &enhancementSource{works: map[string]*ownWork{}, highest: map[string]int64{}}
	s.enhancementPeer = enhancementPeer{
		fleet: f, link: newLink(enhancementHub, f.faults), hello: s.request, receive: s.take,
		filters: []string{"/sources/enhancement-hub/clusters/+/manifestsstatus", "/sources/resync/+/manifests"},
	}
	s.owner = &owner{
		fleet: f, id: enhancementHub, host: f.newHost(enhancementHub), clusters: f.clusters,
		wants: map[string]*wish{}, lost: map[string]time.Time{}, forgot: map[string]time.Time{},
	}
	f.enhancementOwner = s.owner
	s.connect()
	return s
}

// request requests all statuses if the source has no works, otherwise those that differ.
func (s *enhancementSource) request() codec.Message {
	r := &codec.StatusResync{Header: codec.Header{Source: enhancementHub}, Broadcast: true}
	for _, w := range s.works {
		hash := ""
		if w.status != nil {
			hash, _ = codec.ManifestWork.StatusHash(w.status)
		}
		r.Entries = append(r.Entries, codec.StatusEntry{ResourceID: w.name, Hash: hash})
	}
	return r
}

func (s *enhancementSource) publish(w *ownWork) {
	m := &codec.Spec{
		Header:            codec.Header{Source: enhancementHub, Cluster: w.cluster},
		WorkRef:           codec.WorkRef{ResourceID: w.name, Version: w.version},
		DeletionTimestamp: w.deleted, Work: worktest.New(w.name, w.Value),
	}
	m.Work.Labels = map[string]string{"label": w.Label}
	s.send(m)
}

func (s *enhancementSource) write(w *ownWork) {
	w.version++
	w.reused = w.version <= s.highest[w.key()]
	s.highest[w.key()] = max(w.version, s.highest[w.key()])
	s.publish(w)
}

// change creates, updates or deletes a work. Names are unique among clusters, because they are the
// resource IDs.
func (s *enhancementSource) change() {
	f := s.fleet
	s.mu.Lock()
	defer s.mu.Unlock()
	c := f.anyCluster()
	name := fmt.Sprintf("%s-%s-w%d", enhancementHub, c.name, f.random.IntN(2))
	w := s.works[name]
	switch {
	case w == nil:
		w = &ownWork{wish: &wish{life: f.begin(s.owner, c, name)}}
		w.Value, w.Label = f.value(w.life, "value-"), f.value(w.life, "label-")
		s.works[name], s.owner.wants[w.key()] = w, w.wish
	case w.deleted != nil:
		return
	case f.random.IntN(3) == 0:
		f.endLife(w.life)
		w.deleted = &metav1.Time{Time: time.Now()}
		delete(s.owner.wants, w.key())
	default:
		w.Value = f.value(w.life, "value-")
	}
	s.write(w)
}

// restart drops all state except the owner's wishes, and creates these works again.
func (s *enhancementSource) restart() {
	f := s.fleet
	s.mu.Lock()
	old := s.works
	s.works = map[string]*ownWork{}
	for _, c := range f.clusters {
		s.owner.loses(c)
	}
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.connect()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range old {
		if w.deleted == nil {
			s.works[name] = &ownWork{wish: w.wish}
			s.write(s.works[name])
		}
	}
}

func (s *enhancementSource) take(m codec.Message) {
	switch m := m.(type) {
	case *codec.Status:
		w := s.works[m.ResourceID]
		switch {
		case w == nil || m.Time.Before(w.at):
		case m.Gone() && w.deleted != nil && m.Version < w.version: // reports an earlier deletion
		case m.Gone() && w.deleted != nil:
			delete(s.works, m.ResourceID)
		case !m.Gone() && m.Status != nil:
			w.status, w.at = m.Status, m.Time
		}
	case *codec.SpecResync:
		for _, w := range s.works {
			i := slices.IndexFunc(m.Entries, func(e codec.SpecEntry) bool { return e.ResourceID == w.name })
			if w.cluster == m.Cluster && (i < 0 || m.Entries[i].Version != w.version) {
				s.publish(w)
			}
		}
	}
}

// excuse limits the fourth anomaly to works with agents that have the version which was used twice.
func (s *enhancementSource) excuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.works {
		record := s.fleet.clusterOf(w.life).State().Records[name]
		w.reused = w.reused && record.Version == w.version
	}
}

// verifyEnhancementSource compares the statuses of the source with the reports of the clusters.
func (f *fleet) verifyEnhancementSource(s *enhancementSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.works {
		if w.reused {
			continue
		}
		obj, err := f.clusterOf(w.life).works().Get(f.t.Context(), name, metav1.GetOptions{})
		switch {
		case w.deleted != nil:
			f.t.Errorf("the deletion of %s of the enhancement source is not confirmed", w.key())
		case err != nil:
			f.t.Errorf("%s of the enhancement source: %v", w.key(), err)
		case w.status == nil || worktest.Applied(obj) != worktest.Applied(&workv1.ManifestWork{Status: *w.status}):
			f.t.Errorf("the enhancement source has status %+v of %s, not %q", w.status, w.key(), worktest.Applied(obj))
		}
	}
}
