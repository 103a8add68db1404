// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

const (
	isOlder = "a newer process with the same ID is connected"
	isNewer = "an older process with the same ID is connected"
)

// profiles are the profiles in which the rules for rival processes are tested.
var profiles = []codec.Profile{codec.ManifestWork, codec.ManifestBundle}

func inProfiles(t *testing.T, script func(*scene, codec.Profile)) {
	for _, profile := range profiles {
		t.Run(profile.Name(), func(t *testing.T) {
			inScene(t, func(s *scene) { script(s, profile) })
		})
	}
}

// refusedWrite expects that the older process rejects a write.
func refusedWrite(t *testing.T, h *hub) {
	t.Helper()
	_, err := h.works("cluster1").Create(h.t.Context(), newWork("refused", "1"), metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), isOlder) {
		t.Errorf("a write of the older process: %v", err)
	}
}

// holding expects an agent to have exactly the named works, apart from deleted works.
func holding(t *testing.T, when string, a *spoke, names ...string) {
	t.Helper()
	var live []string
	for _, name := range a.names() {
		if a.get(name).DeletionTimestamp == nil {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	if !slices.Equal(live, names) {
		t.Errorf("%s: the agent has %v, want %v", when, live, names)
	}
}

// TestRollingUpdate: of two processes with the same ID, only the newer process writes, and neither
// deletes works of the other. After the older process ends, its works are unknown.
func TestRollingUpdate(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		options := work.SourceOptions{Profile: profile}
		older, a := s.source(options), s.agent(work.AgentOptions{Profile: profile})
		older.complete()
		older.create("cluster1", newWork("a", "1"))
		s.settle()
		expectProbes(s.t, "alone", older, "", "", "")

		newer := s.source(options)
		s.settle()
		newer.complete()
		newer.create("cluster1", newWork("b", "1"))
		s.settle()
		expectProbes(s.t, "older", older, isOlder, "", isOlder)
		expectProbes(s.t, "newer", newer, isNewer, "", "")
		refusedWrite(s.t, older)
		a.report("b", "done")
		s.settle()
		if got := applied(newer.get("cluster1", "b")); got != "done" {
			s.t.Errorf("the newer process shows the status %q", got)
		}
		s.reconnect()
		time.Sleep(time.Minute)
		holding(s.t, "with both", a, "a", "b")

		older.kill()
		s.settleProcesses()
		expectProbes(s.t, "alone again", newer, "", "", "")
		holding(s.t, "after the older process", a, "b")
	})
}

// TestNewerProcessCrashes: after the newer process crashes, the older process writes again. It
// deletes no works of the newer process before InventoryComplete.
func TestNewerProcessCrashes(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		options := work.SourceOptions{SourceID: "hub", Profile: profile}
		older, a := s.source(options), s.agent(work.AgentOptions{Profile: profile})
		older.complete()
		s.settle()
		l := &link{Transport: s.bus.Transport()}
		newer := s.sourceOn(l, options)
		s.settle()
		newer.create("cluster1", newWork("b", "1"))
		s.settle()
		refusedWrite(s.t, older)
		l.setCut(true)
		time.Sleep(40 * time.Second)
		older.create("cluster1", newWork("a", "1"))
		s.settle()
		const doubts = "a newer process with the same ID was connected"
		expectProbes(s.t, "alone again", older, doubts, "", "")
		holding(s.t, "after the crash", a, "a", "b")
		older.complete()
		s.settleProcesses()
		expectProbes(s.t, "after InventoryComplete", older, "", "", "")
		holding(s.t, "after InventoryComplete", a, "a")
	})
}

// TestOlderProcessSendsQueuedWrites: writes of the older process that were not sent before the
// newer process started are sent after the newer process ends.
func TestOlderProcessSendsQueuedWrites(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		options := work.SourceOptions{SourceID: "hub", Profile: profile}
		l := &link{Transport: s.bus.Transport()}
		older, a := s.sourceOn(l, options), s.agent(work.AgentOptions{Profile: profile})
		older.complete()
		s.settle()
		l.setCut(true)
		newer := s.source(options)
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if !strings.Contains(m.Topic, "cluster1") || codec.IsPresence(m.Event) {
				deliver(m) // specs are lost
			}
		})
		older.create("cluster1", newWork("a", "1"))
		l.setCut(false)
		time.Sleep(20 * time.Second)
		refusedWrite(s.t, older)
		s.bus.Intercept(nil)
		s.settle()
		holding(s.t, "meanwhile", a)
		newer.kill()
		s.settle()
		holding(s.t, "after the newer process", a, "a")
	})
}

// TestProcessesDetectEachOtherAfterOutage: after a broker outage, processes with the same ID detect
// each other before either deletes a work, even if presences are late.
func TestProcessesDetectEachOtherAfterOutage(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		options := work.SourceOptions{SourceID: "hub", Profile: profile}
		l := &link{Transport: s.bus.Transport()}
		older, a := s.sourceOn(l, options), s.agent(work.AgentOptions{Profile: profile})
		older.complete()
		older.create("cluster1", newWork("a", "1"))
		older.create("cluster1", newWork("again", "1"))
		s.settle()
		l.setCut(true)
		s.settle()
		older.delete("cluster1", "again")
		s.settle()
		newer := s.source(options) // neither has detected the other
		newer.create("cluster1", newWork("again", "2"))
		newer.create("cluster1", newWork("b", "1"))
		s.settle()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if codec.IsPresence(m.Event) {
				time.Sleep(500 * time.Millisecond)
			}
			deliver(m)
		})
		l.setCut(false)
		time.Sleep(20 * time.Second)
		expectProbes(s.t, "older", older, isOlder, "", isOlder)
		expectProbes(s.t, "newer", newer, isNewer, "", "")
		a.applyAll() // ends the deletion by the older process
		s.settle()
		holding(s.t, "when they met", a, "a", "again", "b")
		if got := valueOf(s.t, a.get("again")); got != "2" {
			s.t.Errorf("the work that both made has value %q", got)
		}
		s.bus.Intercept(nil)
		s.bus.Disconnect()
		time.Sleep(2 * time.Minute)
		refusedWrite(s.t, older) // the outage does not count as silence of the newer process
		s.bus.Reconnect()
		time.Sleep(20 * time.Second)
		expectProbes(s.t, "older, again", older, isOlder, "", isOlder)
		expectProbes(s.t, "newer, again", newer, isNewer, "", "")
		holding(s.t, "after the outage", a, "a", "again", "b")
	})
}

// presenceFilter delivers a presence, or drops it. since is the time since the newer process
// started.
type presenceFilter func(since time.Duration, deliver func())

func loseTwo(since time.Duration, deliver func()) {
	if since < 0 || since >= 10*time.Second {
		deliver()
	}
}

func delayFor(d time.Duration) presenceFilter {
	return func(_ time.Duration, deliver func()) { time.AfterFunc(d, deliver) }
}

func deliverAll(_ time.Duration, deliver func()) { deliver() }

// filtered is a transport that receives presences through a filter.
type filtered struct {
	cloudevents.Transport
	newerStarts time.Time
	filter      presenceFilter
}

func (f filtered) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		if codec.IsPresence(m.Event) {
			f.filter(time.Since(f.newerStarts), func() { receive(m) })
		} else {
			receive(m)
		}
	}
	return f.Transport.Connect(ctx, o)
}

// TestLateOrLostPresence: a newer process that has not detected the older process yet deletes no
// works of the older process.
func TestLateOrLostPresence(t *testing.T) {
	for name, filters := range map[string]struct {
		older, newer presenceFilter
		olderWrites  bool // it has not detected the newer process
	}{
		"presences of both are lost":      {loseTwo, loseTwo, true},
		"presences of the older are lost": {loseTwo, deliverAll, true},
		"presences of the newer are lost": {deliverAll, loseTwo, false},
		"presences of both are late":      {delayFor(9 * time.Second), delayFor(9 * time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			inProfiles(t, func(s *scene, profile codec.Profile) {
				options := work.SourceOptions{SourceID: "hub", Profile: profile}
				newerStarts := time.Now().Add(30 * time.Second)
				older := s.sourceOn(filtered{s.bus.Transport(), newerStarts, filters.older}, options)
				a := s.agent(work.AgentOptions{Profile: profile})
				older.create("cluster1", newWork("before", "1"))
				time.Sleep(time.Until(newerStarts))
				newer := s.sourceOn(filtered{s.bus.Transport(), newerStarts, filters.newer}, options)
				newer.complete()
				want := []string{"before"}
				if filters.olderWrites {
					older.create("cluster1", newWork("meanwhile", "1"))
					want = append(want, "meanwhile")
				}
				time.Sleep(time.Minute)
				holding(s.t, "with both", a, want...)
				expectProbes(s.t, "older", older, isOlder, "", isOlder)
				expectProbes(s.t, "newer", newer, isNewer, "", "")
			})
		})
	}
}

// TestOldProcessDetectsNewerProcess: an older process has long been alone with a complete
// inventory. The first presence of a newer process is lost or late. The older process deletes no
// works that the newer process creates in the meantime.
func TestOldProcessDetectsNewerProcess(t *testing.T) {
	for name, filters := range map[string]struct{ older, newer presenceFilter }{
		"presences of the older are lost":      {loseTwo, deliverAll},
		"presences of both are lost":           {loseTwo, loseTwo},
		"all presences are half a minute late": {delayFor(30 * time.Second), delayFor(30 * time.Second)},
		"all presences are a minute late":      {delayFor(70 * time.Second), delayFor(70 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			inProfiles(t, func(s *scene, profile codec.Profile) {
				options := work.SourceOptions{SourceID: "hub", Profile: profile}
				newerStarts := time.Now().Add(10 * time.Minute)
				older := s.sourceOn(filtered{s.bus.Transport(), newerStarts, filters.older}, options)
				a := s.agent(work.AgentOptions{Profile: profile})
				older.complete()
				older.create("cluster1", newWork("again", "1"))
				older.create("cluster1", newWork("before", "1"))
				s.settle()
				older.delete("cluster1", "again")
				s.settle()
				a.setFinalizers("again")
				time.Sleep(time.Until(newerStarts))
				newer := s.sourceOn(filtered{s.bus.Transport(), newerStarts, filters.newer}, options)
				newer.create("cluster1", newWork("again", "2"))
				newer.create("cluster1", newWork("b", "1"))
				s.settle()
				a.report("again", "2")
				a.report("b", "1")
				time.Sleep(5 * time.Minute)
				holding(s.t, "with both", a, "again", "b", "before")
				expectProbes(s.t, "older", older, isOlder, "", isOlder)
				expectProbes(s.t, "newer", newer, isNewer, "", "")
			})
		})
	}
}

// TestThreeProcesses: only the newest process writes. When it ends, the next newest process writes.
func TestThreeProcesses(t *testing.T) {
	inScene(t, func(s *scene) {
		var hubs []*hub
		for range 3 {
			hubs = append(hubs, s.source(work.SourceOptions{}))
			time.Sleep(time.Second)
		}
		s.settle()
		expectProbes(t, "first", hubs[0], isOlder, "", isOlder)
		expectProbes(t, "second", hubs[1], isOlder, "", isOlder)
		expectProbes(t, "third", hubs[2], isNewer, "", "")
		hubs[2].kill()
		s.settle()
		expectProbes(t, "first of two", hubs[0], isOlder, "", isOlder)
		expectProbes(t, "second of two", hubs[1], isNewer, "", "")
		hubs[1].create("cluster1", newWork("app", "1"))
	})
}

// TestTwoAgents: two agents of the same cluster both report the conflict and continue. Only the
// older agent is not ready.
func TestTwoAgents(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		h := s.source(work.SourceOptions{Profile: profile})
		options := work.AgentOptions{Profile: profile, Sources: []string{"hub"}, InitialSyncTimeout: -1}
		older := s.agent(options)
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		expectProbes(s.t, "alone", older, "", "", "")
		newer := s.agent(options)
		s.settle()
		expectProbes(s.t, "older", older, isOlder, "", isOlder)
		expectProbes(s.t, "newer", newer, isNewer, "", "")
		time.Sleep(5 * time.Minute)
		expectProbes(s.t, "later", older, isOlder, "", isOlder)
		older.report("app", "done")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "done" {
			s.t.Errorf("the source shows the status %q", got)
		}
		newer.kill()
		s.settle()
		expectProbes(s.t, "alone again", older, "", "", "")
	})
}

// TestIdlePresence: an agent without a rival publishes its presence three times for each
// connection. A source also publishes it every minute. Replicas that share a store never publish
// it.
func TestIdlePresence(t *testing.T) {
	inScene(t, func(s *scene) {
		var mu sync.Mutex
		count := map[string]int{}
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if codec.IsPresence(m.Event) {
				mu.Lock()
				count[m.Topic]++
				mu.Unlock()
			}
			deliver(m)
		})
		s.source(work.SourceOptions{})
		s.source(work.SourceOptions{SourceID: "shared", SharedGroup: "g", Store: work.NewMemoryStore()})
		s.agent(work.AgentOptions{})
		time.Sleep(10*time.Minute + time.Second)
		mu.Lock()
		defer mu.Unlock()
		if a, h := count["/clusters/cluster1/presence"], count["/sources/hub/presence"]; len(count) != 2 || a != 3 ||
			h != 12 {
			t.Errorf("published %v", count)
		}
	})
}

// TestPresenceForbidden: a source works with a broker that forbids the presence topic, and logs
// that once.
func TestPresenceForbidden(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{})
		h, err := work.NewSource(withoutPresence{s.bus.Transport()}, work.SourceOptions{SourceID: "hub"})
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if m.Topic == "/sources/hub/presence" {
				count++
			}
			deliver(m)
		})
		_, logs := s.runLogged(h)
		s.settle()
		works := h.Clientset().WorkV1().ManifestWorks("cluster1")
		if _, err := works.Create(s.t.Context(), newWork("app", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		holding(t, "without presence", a, "app")
		if count != 0 || strings.Count(logs(), "Failed to publish the presence") != 1 {
			t.Errorf("published %d times, logged:\n%s", count, logs())
		}
	})
}

// withoutPresence is a transport to a broker that refuses the optional subscriptions of a client.
type withoutPresence struct{ cloudevents.Transport }

func (f withoutPresence) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	for _, filter := range o.Optional {
		o.Denied(filter, errors.New("not authorized"))
	}
	o.Optional = nil
	return f.Transport.Connect(ctx, o)
}

// TestPresencesAreBounded: a client with the credentials of a source can make it remember only a
// few processes, and no process from the far future.
func TestPresencesAreBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		conn := s.publisher()
		publish := func(session string, started time.Time) {
			topic, event, err := codec.ManifestWork.Encode(&codec.Presence{
				Header:  codec.Header{ID: session, Source: "hub"},
				Session: session, Started: started,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Publish(s.t.Context(), cloudevents.Message{Topic: topic, Event: event}, func(error) {}); err != nil {
				t.Fatal(err)
			}
		}
		s.settle()
		publish("future", time.Now().Add(48*time.Hour))
		s.settle()
		expectProbes(t, "the far future", h, "", "", "")
		publish("newer", time.Now().Add(time.Hour))
		for i := range 1000 {
			publish(fmt.Sprint("s", i), time.Now().Add(-time.Hour))
		}
		s.settle()
		if n := work.StateOf(h.Source).Rivals; n > 16 {
			t.Errorf("the source remembers %d rivals", n)
		}
		expectProbes(t, "the newest is not pushed out", h, isOlder, "", isOlder)
		time.Sleep(time.Minute)
		if n := work.StateOf(h.Source).Rivals; n != 0 {
			t.Errorf("the source remembers %d silent rivals", n)
		}
	})
}

// publisher returns a connection of a client that may publish on all topics.
func (s *scene) publisher() cloudevents.Conn {
	s.t.Helper()
	conn, err := s.bus.Transport().Connect(s.t.Context(), cloudevents.ConnectOptions{
		Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
