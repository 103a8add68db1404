// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// lossRepair is the maximum duration of the repair of one lost message. bundleRepair is the
	// maximum if a full comparison is needed.
	lossRepair   = 90 * time.Second
	bundleRepair = 10*time.Minute + 30*time.Second
	// lossPacket is small enough to split the lists of lossWorks works into several chunks.
	lossPacket, lossWorks = 4000, 60
)

// decoding passes decoded messages to see. The message is lost if see returns false.
func (s *scene) decoding(profile codec.Profile, see func(m codec.Message, wire cloudevents.Message) bool) {
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		decoded, err := profile.Decode(m.Topic, m.Event)
		if err != nil {
			s.t.Errorf("decoding a message on %s: %v", m.Topic, err)
		} else if !see(decoded, m) {
			return
		}
		deliver(m)
	})
}

// countingTransport counts connections.
type countingTransport struct {
	cloudevents.Transport
	connections *atomic.Int32
}

func (c countingTransport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	c.connections.Add(1)
	return c.Transport.Connect(ctx, o)
}

// lossyPair is a source and an agent. One message between them is lost.
type lossyPair struct {
	*scene
	h           *hub
	a           *spoke
	options     work.AgentOptions
	connections atomic.Int32
	mu          sync.Mutex
	rules       []func(codec.Message) bool // rules that have not lost a message yet
	lost        codec.Message              // the last lost message
}

func (p *lossyPair) startAgent() {
	p.a = p.agentOn(countingTransport{p.bus.Transport(), &p.connections}, p.options)
}

func newLossyPair(s *scene, profile codec.Profile, sources []string) *lossyPair {
	if profile == codec.ManifestWork { // lists of the other profile are not split
		s.bus.SetMaxPacketSize(lossPacket)
	}
	p := &lossyPair{scene: s, options: work.AgentOptions{ClusterName: "cluster1", Sources: sources, Profile: profile}}
	s.decoding(profile, func(m codec.Message, _ cloudevents.Message) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.rules) == 0 || !p.rules[0](m) {
			return true
		}
		p.rules, p.lost = p.rules[1:], m
		return false
	})
	p.h = s.sourceOn(countingTransport{s.bus.Transport(), &p.connections},
		work.SourceOptions{SourceID: "hub", Profile: profile})
	for i := range lossWorks {
		p.h.create("cluster1", newWork(fmt.Sprint("w", i), "1"))
	}
	p.h.complete()
	s.settle()
	return p
}

// lose loses the first message of each kind, one kind after the other.
func (p *lossyPair) lose(kinds ...func(codec.Message) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = kinds
}

func (p *lossyPair) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rules)
}

// state returns the works that one side shows: value, report, label and deletion of each work.
func state(
	t *testing.T, list func(context.Context, metav1.ListOptions) (*workv1.ManifestWorkList, error),
) map[string]string {
	t.Helper()
	works, err := list(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range works.Items {
		w := &works.Items[i]
		out[w.Name] = fmt.Sprintf("%s %q %q %t", valueOf(t, w), applied(w), w.Labels["tested"], w.DeletionTimestamp != nil)
	}
	return out
}

// check fails the test if the two sides differ after at most this duration.
func (p *lossyPair) check(within time.Duration) {
	p.t.Helper()
	for began := time.Now(); p.left() > 0; time.Sleep(time.Second) {
		if time.Since(began) > 3*time.Minute {
			p.t.Fatal("no message of the kind was sent")
		}
	}
	connections := p.connections.Load()
	time.Sleep(within)
	synctest.Wait()
	want := state(p.t, p.h.works("cluster1").List)
	if diff := cmp.Diff(want, state(p.t, p.a.works().List)); diff != "" {
		p.t.Errorf("%s after the loss of %T, works of source and agent (-source +agent):\n%s", within, p.lost, diff)
	}
	if len(want) < lossWorks-1 {
		p.t.Errorf("the source has %d works", len(want))
	}
	if n := p.connections.Load(); n != connections {
		p.t.Errorf("%d new connections", n-connections)
	}
	deleted := 0
	if p.options.Profile == codec.ManifestBundle { // lists of this profile do not show whether a deletion has arrived
		for _, w := range want {
			if strings.HasSuffix(w, "true") {
				deleted++
			}
		}
	}
	if c := p.h.Clusters(); len(c) != 1 || c[0].Unconfirmed > deleted {
		p.t.Errorf("not confirmed: %+v", c)
	}
}

// Kinds of messages.
func isSpec(m codec.Message) bool   { _, ok := m.(*codec.Spec); return ok }
func isStatus(m codec.Message) bool { s, ok := m.(*codec.Status); return ok && !s.Gone() }
func isGone(m codec.Message) bool   { s, ok := m.(*codec.Status); return ok && s.Gone() }
func isDigest(m codec.Message) bool { _, ok := m.(*codec.Digest); return ok }
func isAnswer(m codec.Message) bool { return isSpec(m) && m.Head().ResyncID != "" }
func isList(m codec.Message) bool {
	r, ok := m.(*codec.SpecResync)
	return ok && r.Scope == codec.ScopeAll
}
func isPartList(m codec.Message) bool { return isList(m) && !m.(*codec.SpecResync).Part.IsZero() }
func isChunk(m codec.Message) bool    { return isList(m) && m.(*codec.SpecResync).Chunk.Index == 1 }

func isConfirmation(m codec.Message) bool {
	r, ok := m.(*codec.SpecResync)
	return ok && r.Scope == codec.ScopeListed
}

func isStatusResync(m codec.Message, scope codec.Scope, entries bool) bool {
	r, ok := m.(*codec.StatusResync)
	return ok && r.Scope == scope && r.Cluster != "" && entries == (len(r.Entries) > 0)
}

func isEnd(m codec.Message) bool           { return isStatusResync(m, codec.ScopeListed, false) }
func isStatusRequest(m codec.Message) bool { return isStatusResync(m, codec.ScopeListed, true) }
func isHashes(m codec.Message) bool        { return isStatusResync(m, codec.ScopeAll, true) }
func isDigestRequest(m codec.Message) bool { return isStatusResync(m, codec.ScopeDigest, false) }
func isPartRequest(m codec.Message) bool   { return isStatusResync(m, codec.ScopeLists, false) }

type kinds = []func(codec.Message) bool

// silentLosses are the messages to lose. Only one message of each kind is lost, except where other
// messages must be lost before it is sent.
var silentLosses = []struct {
	name  string
	kinds kinds
	late  bool // the agent and the losses start after act
	act   func(p *lossyPair)
	// bundle is the duration of the repair in the profile ManifestBundle. It is zero if the profile
	// has no such messages.
	bundle time.Duration
}{
	{"create", kinds{isSpec}, false, func(p *lossyPair) { p.h.create("cluster1", newWork("new", "1")) }, lossRepair},
	{"update", kinds{isSpec}, false, func(p *lossyPair) { p.h.setValue("cluster1", "w0", "2") }, lossRepair},
	{"label", kinds{isSpec}, false, (*lossyPair).label, lossRepair},
	{"delete", kinds{isSpec}, false, func(p *lossyPair) { p.h.delete("cluster1", "w0") }, lossRepair},
	{"status", kinds{isStatus}, false, func(p *lossyPair) { p.a.report("w0", "lost") }, bundleRepair},
	{"gone", kinds{isGone}, false, (*lossyPair).cleanUp, bundleRepair},
	{"confirmation", kinds{isConfirmation}, false, func(p *lossyPair) { p.h.setValue("cluster1", "w0", "2") }, 0},
	{"list on connect", kinds{isList}, true, func(*lossyPair) {}, bundleRepair},
	{"list after an hour", kinds{isList}, false, (*lossyPair).restartAgentLater, bundleRepair},
	{"list on reconnect", kinds{isList}, false, (*lossyPair).reconnectChanged, bundleRepair},
	{"chunk on reconnect", kinds{isChunk}, false, (*lossyPair).reconnectChanged, 0},
	{"hashes on reconnect", kinds{isHashes}, false, (*lossyPair).reconnectChanged, bundleRepair},
	{"event of an answer", kinds{isAnswer}, true, func(*lossyPair) {}, 0},
	{"event of a bundle answer", kinds{isSpec}, true, func(*lossyPair) {}, bundleRepair},
	{"event to a new process", kinds{isSpec}, false, (*lossyPair).restartAgent, lossRepair},
	{"end of an answer", kinds{isEnd}, true, func(*lossyPair) {}, 0},
	{"digest", kinds{isDigest}, false, func(*lossyPair) {}, 0},
	{"status and digest", kinds{isStatus, isDigest}, false, func(p *lossyPair) { p.a.report("w0", "lost") }, 0},
	{"status and digest request", kinds{isStatus, isDigestRequest}, false, func(p *lossyPair) { p.a.report("w0", "lost") },
		0},
	{"status and sums", kinds{isStatus, isSums}, false, func(p *lossyPair) { p.a.report("w0", "lost") }, 0},
	{"status and request of a part", kinds{isStatus, isPartRequest}, false,
		func(p *lossyPair) { p.a.report("w0", "lost") }, 0},
	{"status and list of a part", kinds{isStatus, isPartList}, false, func(p *lossyPair) { p.a.report("w0", "lost") }, 0},
	{"status and request of it", kinds{isStatus, isStatusRequest}, false, func(p *lossyPair) { p.a.report("w0", "lost") },
		0},
}

func isSums(m codec.Message) bool { return isDigest(m) && len(m.(*codec.Digest).Sums) > 1 }

func (p *lossyPair) label() {
	p.t.Helper()
	obj := p.h.get("cluster1", "w0")
	obj.Labels = map[string]string{"tested": "yes"}
	if _, err := p.h.works("cluster1").Update(p.t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// restartAgent restarts the agent without its works. The source still treats them as confirmed.
func (p *lossyPair) restartAgent() {
	p.a.kill()
	p.startAgent()
}

// restartAgentLater is restartAgent after an hour. During that hour the source has requested a
// digest from the agent many times.
func (p *lossyPair) restartAgentLater() {
	p.a.kill()
	time.Sleep(time.Hour + 7*time.Second)
	p.startAgent()
}

// cleanUp deletes a work on both sides.
func (p *lossyPair) cleanUp() {
	p.h.delete("cluster1", "w0")
	p.settle()
	p.a.setFinalizers("w0")
}

// reconnectChanged changes both sides while they are disconnected.
func (p *lossyPair) reconnectChanged() {
	p.bus.Disconnect()
	p.h.setValue("cluster1", "w0", "2")
	p.h.delete("cluster1", "w1")
	p.a.report("w2", "apart")
	p.bus.Reconnect()
}

// TestSilentLoss: with default options, the loss of any single message is repaired while both sides
// stay connected.
func TestSilentLoss(t *testing.T) {
	for _, tc := range silentLosses {
		for name, sources := range map[string][]string{"named": {"hub"}, "any": nil} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				inScene(t, func(s *scene) { testSilentLoss(s, codec.ManifestWork, sources, tc.late, tc.kinds, tc.act, lossRepair) })
			})
		}
	}
}

// TestBundleSilentLoss: in the profile ManifestBundle a lost spec is repaired as fast. Data that
// only the agent has is repaired with the next full comparison.
func TestBundleSilentLoss(t *testing.T) {
	for _, tc := range silentLosses {
		for name, sources := range map[string][]string{"named": {"hub"}, "any": nil} {
			if tc.bundle == 0 {
				continue
			}
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				inScene(t, func(s *scene) {
					testSilentLoss(s, codec.ManifestBundle, sources, tc.late, tc.kinds, tc.act,
						tc.bundle)
				})
			})
		}
	}
}

func testSilentLoss(
	s *scene, profile codec.Profile, sources []string, late bool, lost kinds, act func(*lossyPair), within time.Duration,
) {
	s.t.Helper()
	p := newLossyPair(s, profile, sources)
	if !late {
		p.startAgent()
		time.Sleep(30 * time.Second)
	}
	p.lose(lost...)
	act(p)
	if late {
		p.startAgent()
	}
	p.check(within)
}

// TestNewAgentProcessConfirmsAgain: the list of a new agent process shows that it lacks works that
// the previous process confirmed. Lost parts of the answer are sent again, without waiting for a
// digest.
func TestNewAgentProcessConfirmsAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		p := newLossyPair(s, codec.ManifestWork, nil)
		p.startAgent()
		time.Sleep(30 * time.Second)
		p.lose(isSpec)
		p.restartAgent()
		p.settle()
		if c := p.h.Clusters(); p.left() > 0 || c[0].Unconfirmed != 1 {
			t.Errorf("%d losses are left, and after one the clusters are %+v", p.left(), c)
		}
		p.check(10 * time.Second)
	})
}
