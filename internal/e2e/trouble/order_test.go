// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// aboutWorks selects specs and statuses.
func aboutWorks(h heard) bool { return h.spec() != nil || h.status() != nil }

// replay sends messages again: in reverse order, in their own order, and shuffled.
func (r *raw) replay(messages []heard) {
	r.t.Helper()
	backwards := slices.Clone(messages)
	slices.Reverse(backwards)
	shuffled := slices.Clone(messages)
	rand.New(rand.NewPCG(5, 6)).Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j],
			shuffled[i]
	})
	for _, m := range slices.Concat(backwards, messages, shuffled) {
		if reason := r.publish(m.topic, m.payload); reason != 0 {
			r.t.Errorf("the broker refused %s: %d", m.topic, reason)
		}
	}
}

// TestTrouble05TwiceAndLate: earlier messages arrive again, late and in other orders, even from
// processes that have ended. Works and statuses only move forward, and each state is shown once.
func TestTrouble05TwiceAndLate(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	r := &replayed{scene: s, wire: newTap(s, nil), h: s.source(work.SourceOptions{}), a: s.agent(work.AgentOptions{})}
	r.atSource, r.atAgent = spyOn(t, r.h.works("cluster1")), spyOn(t, r.a.works())
	r.sameIncarnation()
	r.nextIncarnation()
	r.deadSource()
	r.deadAgent()
}

// replayed holds a source and an agent with messages that are all sent again.
type replayed struct {
	*scene
	wire              *tap
	h                 *hub
	a                 *spoke
	atSource, atAgent *spy
}

func (r *replayed) replay() { r.wire.raw().replay(r.wire.that(aboutWorks)) }

func (r *replayed) sameIncarnation() {
	t, h, a := r.t, r.h, r.a
	h.create("cluster1", "app", "1")
	for i := range 4 {
		h.set("cluster1", "app", fmt.Sprint(i+1)) // the first changes nothing
		shows(t, "the agent", a.works(), state(t, h.works("cluster1")))
		a.report("app", fmt.Sprint(i+1))
		shows(t, "the source", h.works("cluster1"), fmt.Sprintf("app=%[1]d/%[1]d", i+1))
	}
	r.replay()
	r.sayAgain()
	h.set("cluster1", "app", "5") // follows the replayed messages
	shows(t, "the agent after the first replay", a.works(), "app=5/4")
	a.report("app", "5")
	shows(t, "the source after the first replay", h.works("cluster1"), "app=5/5")
	want := []string{"1", "2", "3", "4", "5"}
	if diff := cmp.Diff(want, r.atAgent.now().values("app")); diff != "" {
		t.Errorf("values at the agent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append([]string{""}, want...), r.atSource.now().statuses("app")); diff != "" {
		t.Errorf("statuses at the source (-want +got):\n%s", diff)
	}
	// Each of ten writes is one event on either side, except for the write that changed nothing.
	if at, source := len(r.atAgent.of("app")), len(r.atSource.of("app")); at != 10 || source != 10 {
		t.Errorf("%d events at the agent and %d at the source, want 10 each", at, source)
	}
}

// sayAgain sends the last status again with a newer sequence ID. It is accepted, but changes
// nothing.
func (r *replayed) sayAgain() {
	statuses := r.wire.that(func(h heard) bool { return h.status() != nil })
	last := statuses[len(statuses)-1]
	newer := edited(r.t, last.payload, map[string]any{"sequenceid": fmt.Sprint(last.status().SequenceID + 1)})
	if reason := r.wire.raw().publish(last.topic, newer); reason != 0 {
		r.t.Errorf("the broker refused %s: %d", last.topic, reason)
	}
}

// nextIncarnation: messages about a deleted work do not affect the next work with the same name.
func (r *replayed) nextIncarnation() {
	t, h, a := r.t, r.h, r.a
	h.delete("cluster1", "app")
	shows(t, "the source after the deletion", h.works("cluster1"), "")
	h.create("cluster1", "app", "6")
	shows(t, "the agent after the deletion", a.works(), "app=6/")
	r.replay()
	a.report("app", "6")
	shows(t, "the source after the second replay", h.works("cluster1"), "app=6/6")
	h.create("cluster1", "marker", "1")
	shows(t, "the agent after the second replay", a.works(), "app=6/6 marker=1/")
	for side, spy := range map[string]*spy{"agent": r.atAgent, "source": r.atSource} {
		deleted := slices.DeleteFunc(spy.now().of("app"), func(e seen) bool { return e.kind != watch.Deleted })
		if len(deleted) != 1 {
			t.Errorf("at the %s the work was deleted %d times", side, len(deleted))
		}
	}
	if got := r.atSource.statuses("app"); got[len(got)-1] != "6" || slices.Contains(got[slices.Index(got, "5")+2:], "5") {
		t.Errorf("statuses at the source: %v", got)
	}
}

// deadSource: messages of an ended process have lower priority than those of its successor.
func (r *replayed) deadSource() {
	t, a := r.t, r.a
	r.h.crash()
	r.h = r.source(work.SourceOptions{})
	h := r.h
	h.create("cluster1", "app", "7")
	shows(t, "the agent of the second source", a.works(), "app=7/6 marker=1/")
	r.replay()
	h.create("cluster1", "marker", "2")
	a.report("app", "7")
	shows(t, "the agent after the third replay", a.works(), "app=7/7 marker=2/")
	shows(t, "the second source after the third replay", h.works("cluster1"), "app=7/7 marker=2/")
	if got := r.atAgent.now().values("app"); !slices.Equal(got, []string{"1", "2", "3", "4", "5", "6", "7"}) {
		t.Errorf("values at the agent: %v", got)
	}
}

// deadAgent: messages to and from an ended process do not change the state of its successor. The
// successor cannot know which works were deleted before its start.
func (r *replayed) deadAgent() {
	t, h := r.t, r.h
	h.delete("cluster1", "marker")
	shows(t, "the source without a marker", h.works("cluster1"), "app=7/7")
	r.a.crash()
	r.a = r.agent(work.AgentOptions{})
	a := r.a
	spy := spyOn(t, a.works())
	shows(t, "the second agent", a.works(), "app=7/")
	a.report("app", "8")
	shows(t, "the source of the second agent", h.works("cluster1"), "app=7/8")
	r.replay()
	h.set("cluster1", "app", "8")
	shows(t, "the second agent after the fourth replay", a.works(), "app=8/8")
	a.report("app", "9")
	shows(t, "the source after the fourth replay", h.works("cluster1"), "app=8/9")
	if got := spy.now().of("marker"); len(got) > 0 {
		t.Errorf("a deleted work came back: %v", got)
	}
	if got := spy.values("app"); !slices.Equal(got, []string{"7", "8"}) {
		t.Errorf("values at the second agent: %v", got)
	}
}

// echo sends all messages about works again, once or twice, with a delay of up to 200 ms.
type echo struct {
	raw     *raw
	random  *rand.Rand // used by the tap's goroutine only
	late    atomic.Int64
	pending sync.WaitGroup // for the end of the test
}

func (e *echo) hear(h heard) {
	if !aboutWorks(h) {
		return
	}
	for range 1 + e.random.IntN(2) {
		delay := time.Duration(e.random.IntN(200)) * time.Millisecond
		e.late.Add(1)
		e.pending.Go(func() {
			time.Sleep(delay) // the delay is the failure under test
			e.raw.publish(h.topic, h.payload)
			e.late.Add(-1)
		})
	}
}

// TestTrouble05Echo: while every message is sent again late, sources and agents write, restart and
// lose their links.
func TestTrouble05Echo(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	client, err := dialRaw(t, s.broker.Addr(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{raw: client, random: rand.New(rand.NewPCG(7, 8))}
	t.Cleanup(func() { // after the tap has ended
		e.pending.Wait()
		client.close()
	})
	newTap(s, e.hear)
	h := s.source(work.SourceOptions{})
	a := s.agent(work.AgentOptions{})
	a.apply()
	atSource, atAgent := spyOn(t, h.works("cluster1")), spyOn(t, a.works())
	want := writeAtRandom(h, a)
	shows(t, "the source", h.works("cluster1"), join(want))
	shows(t, "the agent", a.works(), join(want))
	eventually(t, "the last echo", func() string { return unless(e.late.Load() == 0, "more to come") })
	h.create("cluster1", "zz", "end") // follows all echoes except its own
	want = append(want, "zz=end/end")
	shows(t, "the source after the last echo", h.works("cluster1"), join(want))
	shows(t, "the agent after the last echo", a.works(), join(want))
	atAgent.now()
	atSource.now()
	for i := range 4 {
		checkForward(t, "agent", atAgent.of(fmt.Sprintf("w%d", i)))
		checkForward(t, "source", atSource.of(fmt.Sprintf("w%d", i)))
	}
}

// writeAtRandom creates, changes and deletes works, and breaks links. It returns the expected
// result.
func writeAtRandom(h *hub, a *spoke) (want []string) {
	t := h.t
	random := rand.New(rand.NewPCG(9, 10))
	live := map[string]string{}
	for step := range 120 {
		name, value := fmt.Sprintf("w%d", random.IntN(4)), fmt.Sprintf("%03d", step)
		switch _, exists := live[name]; {
		case exists && random.IntN(4) == 0:
			h.delete("cluster1", name)
			delete(live, name)
		case exists:
			h.set("cluster1", name, value)
			live[name] = value
		default:
			_, err := h.works("cluster1").Create(t.Context(), newWork(name, value), metav1.CreateOptions{})
			if err == nil {
				live[name] = value
			} else if !apierrors.IsAlreadyExists(err) { // its deletion is in progress
				t.Fatal(err)
			}
		}
		switch random.IntN(12) {
		case 0:
			a.proxy.Cut()
		case 1:
			h.proxy.Cut()
		case 2:
			eventually(t, "the deletions", func() string {
				return unless(len(h.list()) == len(live), state(t, h.works("cluster1")))
			})
		}
	}
	for name, value := range live {
		want = append(want, fmt.Sprintf("%s=%s/%s", name, value, value))
	}
	slices.Sort(want)
	return want
}

// checkForward checks that values and statuses of one work only grow, and that no incarnation shows
// a status of an earlier one.
func checkForward(t *testing.T, where string, events []seen) {
	t.Helper()
	value, status, created := "", "", ""
	for _, e := range events {
		if e.kind == watch.Added {
			created, status = e.value, ""
		}
		switch {
		case e.deleting && e.value == "": // first received when it was being deleted
			continue
		case e.value < value:
			t.Errorf("%s: %v after the value %s", where, e, value)
		case e.status < status:
			t.Errorf("%s: %v after the status %s", where, e, status)
		case e.status != "" && e.status < created:
			t.Errorf("%s: %v, but the work was created with %s", where, e, created)
		}
		value, status = e.value, e.status
	}
}
