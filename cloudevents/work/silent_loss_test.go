// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// silentLossRepair is how long the repair of one lost message may take with default options.
	silentLossRepair = 90 * time.Second
	// silentLossCompare is the same for what only a full comparison finds with peers that know no digests: every 10 min,
	// and a minute to repair.
	silentLossCompare = 11 * time.Minute
	silentLossWorks   = 40
)

// work7 is the resource ID of the work that changes, in the profile ManifestWork.
var work7 = codec.ManifestWork.ResourceID("hub", "cluster1", "work7")

// silentLoss is a source and an agent that lose one message, and no connection.
type silentLoss struct {
	*scene
	profile                 codec.Profile
	hub                     *hub
	spoke                   *spoke
	sourceStore, agentStore work.Store
	connects                atomic.Int64
	lost                    atomic.Bool
}

// dialled counts connections.
type dialled struct {
	cloudevents.Transport
	connects *atomic.Int64
}

func (c *dialled) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	c.connects.Add(1)
	return c.Transport.Connect(ctx, o)
}

func (l *silentLoss) startSource() {
	l.hub = l.sourceOn(&dialled{l.bus.Transport(), &l.connects}, work.SourceOptions{
		SourceID: "hub", Profile: l.profile, Store: l.sourceStore,
	})
}

func (l *silentLoss) startAgent(store work.Store) {
	l.agentStore = store
	timeout := time.Hour // named sources end their answers themselves
	if l.profile != codec.ManifestWork {
		timeout = time.Second
	}
	l.spoke = l.agentOn(&dialled{l.bus.Transport(), &l.connects}, work.AgentOptions{
		ClusterName: "cluster1", Profile: l.profile, Store: store, Sources: []string{"hub"}, InitialSyncTimeout: timeout,
	})
}

// lose drops the first message for which is returns true.
func (l *silentLoss) lose(is func(codec.Message) bool) {
	l.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		message, err := l.profile.Decode(m.Topic, m.Event)
		if err == nil && !l.lost.Load() && is(message) && l.lost.CompareAndSwap(false, true) {
			return
		}
		deliver(m)
	})
}

// differs returns the first difference between what the source wants and the agent has, or the agent reports and the
// source shows.
func (l *silentLoss) differs() string {
	// A list of the agent waits for its sources. The works themselves are the question here, so it must not wait for ever.
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Millisecond)
	defer cancel()
	at, err := l.spoke.works().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "the agent lists: " + err.Error()
	}
	has := map[string]*workv1.ManifestWork{}
	for i := range at.Items {
		has[at.Items[i].Name] = &at.Items[i]
	}
	wanted, err := l.hub.works("cluster1").List(ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range wanted.Items {
		w := &wanted.Items[i]
		a := has[w.Name]
		delete(has, w.Name)
		switch {
		case w.DeletionTimestamp != nil:
			return w.Name + " is not gone at the source"
		case a == nil:
			return w.Name + " is missing at the agent"
		case valueOf(l.t, a) != valueOf(l.t, w):
			return fmt.Sprintf("%s has value %s at the agent, %s at the source", w.Name, valueOf(l.t, a), valueOf(l.t, w))
		case applied(a) != "" && applied(a) != applied(w): // a new agent has no statuses yet
			return fmt.Sprintf("%s has status %q at the agent, %q at the source", w.Name, applied(a), applied(w))
		}
	}
	for name := range has {
		return name + " is left at the agent"
	}
	return ""
}

func isSpec(m codec.Message) bool {
	spec, ok := m.(*codec.Spec)
	return ok && spec.DeletionTimestamp == nil
}

func isDelete(m codec.Message) bool {
	spec, ok := m.(*codec.Spec)
	return ok && spec.DeletionTimestamp != nil
}

func isStatus(m codec.Message) bool {
	status, ok := m.(*codec.Status)
	return ok && !status.Gone() && status.Status != nil && len(status.Status.Conditions) > 0
}

func isGone(m codec.Message) bool {
	status, ok := m.(*codec.Status)
	return ok && status.Gone()
}

func isList(m codec.Message) bool {
	_, ok := m.(*codec.SpecResync)
	return ok
}

// isListChunk is the chunk that names the work whose update the agent has missed.
func isListChunk(m codec.Message) bool {
	list, ok := m.(*codec.SpecResync)
	return ok && list.Chunk.Count > 1 && slices.ContainsFunc(list.Entries, func(e codec.SpecEntry) bool { return e.ResourceID == work7 })
}

func isHashes(m codec.Message) bool {
	list, ok := m.(*codec.StatusResync)
	return ok && len(list.Entries) > 0
}

// isHashesChunk is the chunk that names the work whose status the source has missed.
func isHashesChunk(m codec.Message) bool {
	list, ok := m.(*codec.StatusResync)
	return ok && list.Chunk.Count > 1 && slices.ContainsFunc(list.Entries, func(e codec.StatusEntry) bool { return e.ResourceID == work7 })
}

func isEndMarker(m codec.Message) bool {
	marker, ok := m.(*codec.StatusResync)
	return ok && marker.Scope == codec.ScopeListed && len(marker.Entries) == 0
}

// silentLosses are the messages that are lost, one in each test.
var silentLosses = []struct {
	name string
	is   func(codec.Message) bool
	// before is what happens before the loss, act what the lost message is about.
	before, act func(*silentLoss)
	// compared is for what only a full comparison finds with peers that know no digests.
	compared bool
	// modern is for messages that only the profile ManifestWork has.
	modern bool
}{
	{name: "create", is: isSpec, act: func(l *silentLoss) { l.hub.create("cluster1", newWork("new", "1")) }},
	{name: "update", is: isSpec, act: func(l *silentLoss) { l.hub.setValue("cluster1", "work7", "2") }},
	{name: "delete", is: isDelete, act: func(l *silentLoss) { l.hub.delete("cluster1", "work7") }},
	{name: "status", is: isStatus, act: func(l *silentLoss) { l.spoke.report("work7", "changed") }, compared: true},
	{name: "gone", is: isGone, act: func(l *silentLoss) { l.hub.delete("cluster1", "work7") }, compared: true},

	{name: "list of a new agent", is: isList, before: stopAgent, act: newAgent, compared: true},
	{name: "answer to a new agent", is: isSpec, before: stopAgent, act: newAgent, compared: true},
	{name: "end marker", is: isEndMarker, before: stopAgent, act: newAgent, modern: true},

	{name: "list", is: isList, before: missUpdate, act: sameAgent, compared: true},
	{name: "chunk of a list", is: isListChunk, before: missUpdate, act: sameAgent, modern: true},
	{name: "answer", is: isSpec, before: missUpdate, act: sameAgent, compared: true},

	{name: "hashes", is: isHashes, before: missStatus, act: sameSource, compared: true},
	{name: "chunk of hashes", is: isHashesChunk, before: missStatus, act: sameSource, modern: true},
	{name: "answered status", is: isStatus, before: missStatus, act: sameSource, compared: true},
}

func stopAgent(l *silentLoss)  { l.spoke.kill() }
func newAgent(l *silentLoss)   { l.startAgent(work.NewMemoryStore()) }
func sameAgent(l *silentLoss)  { l.startAgent(l.agentStore) }
func sameSource(l *silentLoss) { l.startSource() }

// missUpdate changes a work while the agent is away, so that only the lists of its connection tell of it.
func missUpdate(l *silentLoss) {
	l.spoke.kill()
	l.hub.setValue("cluster1", "work7", "2")
	l.settle()
}

// missStatus changes a status while the source is away.
func missStatus(l *silentLoss) {
	l.hub.kill()
	l.spoke.report("work7", "changed")
	l.settle()
}

// TestSilentLossIsRepaired: any one message is lost while every connection stays. With default options, source and
// agent agree again in time.
func TestSilentLossIsRepaired(t *testing.T) {
	for _, profile := range []struct {
		name string
		codec.Profile
		strict bool
	}{{"ManifestWork", codec.ManifestWork, false}, {"ManifestBundle", codec.ManifestBundle, true}} {
		for _, tc := range silentLosses {
			if tc.modern && profile.strict {
				continue
			}
			t.Run(profile.name+"/"+tc.name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					l := startSilentLoss(s, profile.Profile)
					if tc.before != nil {
						tc.before(l)
					}
					l.lose(tc.is)
					tc.act(l)
					within := silentLossRepair
					if tc.compared && profile.strict {
						within = silentLossCompare
					}
					l.repairs(within)
				})
			})
		}
	}
}

// startSilentLoss returns a source and an agent that agree.
func startSilentLoss(s *scene, profile codec.Profile) *silentLoss {
	s.t.Helper()
	if profile == codec.ManifestWork {
		s.bus.SetMaxPacketSize(4096) // so lists have chunks
	}
	l := &silentLoss{scene: s, profile: profile, sourceStore: work.NewMemoryStore()}
	l.startSource()
	newAgent(l)
	for i := range silentLossWorks {
		l.hub.create("cluster1", newWork(fmt.Sprintf("work%d", i), "1"))
	}
	l.hub.complete()
	l.settle()
	for i := range silentLossWorks {
		l.spoke.report(fmt.Sprintf("work%d", i), "one")
	}
	l.settle()
	if wrong := l.differs(); wrong != "" {
		s.t.Fatalf("before the loss: %s", wrong)
	}
	return l
}

// repairs waits until source and agent agree.
func (l *silentLoss) repairs(within time.Duration) {
	l.t.Helper()
	synctest.Wait()
	connects, began, wrong := l.connects.Load(), time.Now(), "unknown"
	for wrong != "" && time.Since(began) < within {
		time.Sleep(time.Second)
		synctest.Wait()
		wrong = l.differs()
	}
	switch {
	case !l.lost.Load():
		l.t.Fatal("nothing was lost")
	case wrong != "":
		l.t.Errorf("not repaired within %s: %s", within, wrong)
	default:
		l.t.Logf("repaired within %s", time.Since(began))
	}
	if n := l.connects.Load() - connects; n != 0 {
		l.t.Errorf("reconnected %d times", n)
	}
}
