// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// mostUnconfirmed is the maximum number of sent works that are not confirmed during a repair.
const mostUnconfirmed = 256

// flood counts the specs that a source sends and that its agent confirms.
type flood struct {
	mu          sync.Mutex
	losing      bool
	specs       int                 // published since the loss
	unconfirmed map[string]struct{} // published and not confirmed, by resource ID
	most        int
	listed      int // entries of whole lists, or lists of a part
}

// see counts a message, and reports whether it must be delivered.
func (f *flood) see(m codec.Message, _ cloudevents.Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.losing {
		return false
	}
	switch m := m.(type) {
	case *codec.Spec:
		f.specs++
		f.unconfirmed[m.ResourceID] = struct{}{}
		f.most = max(f.most, len(f.unconfirmed))
	case *codec.Status:
		delete(f.unconfirmed, m.ResourceID)
	case *codec.SpecResync:
		for i := range m.Entries {
			delete(f.unconfirmed, m.Entries[i].ResourceID)
		}
		if m.Scope == codec.ScopeAll {
			f.listed += len(m.Entries)
		}
	}
	return true
}

func (f *flood) lose(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losing, f.specs, f.most, f.listed = on, 0, 0, 0
	clear(f.unconfirmed)
}

// TestMassLossIsRepaired: the loss of ten thousand works and ten thousand statuses at the same time
// is repaired within five minutes. Each is sent about once, and only a few are in transit at a
// time.
func TestMassLossIsRepaired(t *testing.T) {
	const lost, within = 10_000, 5 * time.Minute
	inScene(t, func(s *scene) {
		f := &flood{unconfirmed: map[string]struct{}{}}
		s.decoding(codec.ManifestWork, f.see)
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{Sources: []string{"hub"}})
		h.complete()
		for i := range lost {
			h.create("cluster1", newWork(fmt.Sprint("reported", i), "1"))
		}
		time.Sleep(30 * time.Second)
		f.lose(true)
		for i := range lost {
			h.create("cluster1", newWork(fmt.Sprint("new", i), "1"))
			a.report(fmt.Sprint("reported", i), "lost")
		}
		s.settle()
		f.lose(false)
		time.Sleep(within)
		synctest.Wait()
		want, got := held(t, h.works("cluster1").List), held(t, a.works().List)
		if !maps.Equal(want, got) || len(want) != 2*lost {
			t.Errorf("%d works of the source and %d of the agent differ", len(want), len(got))
		}
		if c := h.Clusters(); c[0].Unconfirmed > 0 {
			t.Errorf("not confirmed: %+v", c)
		}
		t.Logf("%d specs were published, at most %d not confirmed", f.specs, f.most)
		again := f.specs - lost // some of these were confirmed while they waited to be published
		if f.specs > lost*11/10 || f.most > mostUnconfirmed+again {
			t.Errorf("%d specs were published to repair %d, at most %d of them not confirmed", f.specs, lost, f.most)
		}
	})
}

// TestSilentLossWhileBusy: a lost status of an idle work is repaired although other works change
// all the time, and without lists of all works.
func TestSilentLossWhileBusy(t *testing.T) {
	const works, busy = 2000, 50
	inScene(t, func(s *scene) {
		f := &flood{unconfirmed: map[string]struct{}{}}
		s.decoding(codec.ManifestWork, f.see)
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{Sources: []string{"hub"}})
		h.complete()
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("w", i), "1"))
		}
		time.Sleep(30 * time.Second)
		f.lose(true)
		a.report(fmt.Sprint("w", works-1), "lost")
		synctest.Wait()
		f.lose(false)
		writes := 0
		for began := time.Now(); time.Since(began) < lossRepair; writes++ {
			h.setValue("cluster1", fmt.Sprint("w", writes%busy), fmt.Sprint(writes))
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if diff := cmp.Diff(held(t, h.works("cluster1").List), held(t, a.works().List)); diff != "" {
			t.Errorf("works of source and agent (-source +agent):\n%s", diff)
		}
		if f.specs > writes+works/10 {
			t.Errorf("%d specs were published for %d writes", f.specs, writes)
		}
		t.Logf("lists named %d works", f.listed)
		if f.listed == 0 || f.listed >= works/10 {
			t.Errorf("lists named %d works of %d", f.listed, works)
		}
	})
}

// TestLostStatusBeforeEqualStatus: after a lost status, the next status equals the status before
// it. The source must still receive the new sequence. Otherwise the digests would differ for ever.
func TestLostStatusBeforeEqualStatus(t *testing.T) {
	inScene(t, func(s *scene) {
		f := &flood{unconfirmed: map[string]struct{}{}}
		s.decoding(codec.ManifestWork, f.see)
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		h.complete()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "one")
		s.settle()
		f.lose(true)
		a.report("app", "two")
		s.settle()
		a.report("app", "one")
		s.settle()
		f.lose(false)
		time.Sleep(lossRepair)
		f.lose(false) // counts from here
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if f.listed > 0 {
			t.Errorf("%d works were listed although source and agent are equal", f.listed)
		}
	})
}

// TestUnconfirmedWorkShowsCondition: a work that its agent has not confirmed for 30 s shows this,
// until it is confirmed.
func TestUnconfirmedWorkShowsCondition(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		s.agent(work.AgentOptions{})
		h.complete()
		h.create("cluster1", newWork("known", "1"))
		time.Sleep(30 * time.Second)
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if !strings.HasSuffix(m.Topic, specTopic) {
				deliver(m)
			}
		})
		h.create("cluster1", newWork("app", "1"))
		time.Sleep(29 * time.Second)
		synctest.Wait()
		delivered := func(name string) *metav1.Condition {
			return meta.FindStatusCondition(h.get("cluster1", name).Status.Conditions, work.ConditionDelivered)
		}
		if c := delivered("app"); c != nil {
			t.Errorf("after 29 s: %+v", c)
		}
		time.Sleep(2 * time.Second)
		if c := delivered("app"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NotConfirmed" {
			t.Errorf("after 31 s: %+v", c)
		}
		if c := delivered("known"); c != nil {
			t.Errorf("a confirmed work has %+v", c)
		}
		time.Sleep(time.Minute)
		if c := h.Clusters(); len(c) != 1 || c[0].Name != "cluster1" || c[0].Works != 2 || c[0].Unconfirmed != 1 ||
			time.Since(c[0].LastHeard) > time.Minute {
			t.Errorf("at %s the clusters are %+v", time.Now(), c)
		}
		s.bus.Intercept(nil)
		time.Sleep(lossRepair)
		synctest.Wait()
		if c := delivered("app"); c != nil {
			t.Errorf("once it is confirmed: %+v", c)
		}
		if c := h.Clusters(); c[0].Unconfirmed != 0 {
			t.Errorf("once all is confirmed: %+v", c)
		}
	})
}

// TestListLostAfterBothRestarted: an agent with a Store learns that its restarted source has no
// works, although all messages of both connections are lost.
func TestListLostAfterBothRestarted(t *testing.T) {
	inScene(t, func(s *scene) {
		options := work.AgentOptions{Store: work.NewMemoryStore()}
		h, a := s.source(work.SourceOptions{}), s.agent(options)
		h.complete()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		h.kill()
		a.kill()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if codec.IsPresence(m.Event) {
				deliver(m)
			}
		})
		h, a = s.source(work.SourceOptions{}), s.agent(options)
		h.complete()
		s.settleProcesses()
		s.bus.Intercept(nil)
		time.Sleep(lossRepair)
		holding(t, "after the repair", a)
	})
}
