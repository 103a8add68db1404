// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble04BrokerAway: the number of queued messages is limited, and one message is sent for
// each work. No accepted write is lost.
func TestTrouble04BrokerAway(t *testing.T) {
	t.Parallel()
	const limit = 5
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{Outbox: limit})
	a := s.agent(work.AgentOptions{Outbox: limit})
	h.create("cluster1", "reported", "1")
	shows(t, "the agent before", a.works(), "reported=1/")
	// Both stay disconnected until the tap counts.
	a.leave()
	h.leave()
	s.broker.Kill()
	s.broker.Restart()
	wire := newTap(s, nil)

	names := []string{"w0", "w1", "w2", "w3", "w4"}
	for _, name := range names {
		h.create("cluster1", name, "0")
	}
	for round := range 20 {
		for _, name := range names {
			h.set("cluster1", name, fmt.Sprint(round+1))
		}
		a.report("reported", fmt.Sprint(round+1))
	}
	_, err := h.works("cluster1").Create(t.Context(), newWork("more", "0"), metav1.CreateOptions{})
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds < 1 {
		t.Errorf("Create beyond the limit: %v", err)
	}
	if err := h.works("cluster1").Delete(t.Context(), "reported", metav1.DeleteOptions{}); !apierrors.IsTooManyRequests(
		err) {
		t.Errorf("Delete beyond the limit: %v", err)
	}

	h.comeBack()
	for _, name := range names {
		wire.hears(name, func(m heard) bool { return m.spec() != nil && m.spec().Name == name })
	}
	a.comeBack()
	shows(t, "the agent", a.works(), "reported=1/20 w0=20/ w1=20/ w2=20/ w3=20/ w4=20/")
	shows(t, "the source", h.works("cluster1"), "reported=1/20 w0=20/ w1=20/ w2=20/ w3=20/ w4=20/")
	for _, name := range names {
		news := wire.that(func(m heard) bool { return m.spec() != nil && m.spec().Name == name && m.spec().ResyncID == "" })
		if len(news) != 1 || valueOf(news[0].spec().Work) != "20" {
			t.Errorf("twenty writes to %s went out as %d events", name, len(news))
		}
	}
	status := func(m heard) bool {
		return m.status() != nil && m.status().Name == "reported" && m.status().ResyncID == ""
	}
	wire.hears("the status", status) // the source may have it before the tap
	if statuses := wire.that(status); len(statuses) != 1 {
		t.Errorf("twenty statuses went out as %d events", len(statuses))
	}
	h.create("cluster1", "more", "0")
	shows(t, "the agent, with room again", a.works(), "more=0/ reported=1/20 w0=20/ w1=20/ w2=20/ w3=20/ w4=20/")
}

// TestTrouble04OutboxDisabled: without an outbox a write while disconnected fails, and leaves nothing behind.
func TestTrouble04OutboxDisabled(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{Outbox: work.Disabled})
	a := s.agent(work.AgentOptions{Outbox: work.Disabled})
	h.create("cluster1", "app", "1")
	shows(t, "the agent", a.works(), "app=1/")
	s.broker.Kill()
	eventually(t, "the loss of the broker", func() string {
		return unless(h.Healthy() != nil && a.Healthy() != nil, "still connected")
	})
	_, err := h.works("cluster1").Create(t.Context(), newWork("more", "1"), metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("Create: %v", err)
	}
	if err := h.works("cluster1").Delete(t.Context(), "app", metav1.DeleteOptions{}); !apierrors.IsServiceUnavailable(
		err) {
		t.Errorf("Delete: %v", err)
	}
	if err := report(a, "app", "1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("status: %v", err)
	}
	s.broker.Restart()
	h.connected()
	a.connected()
	if got := state(t, h.works("cluster1")); got != "app=1/" {
		t.Errorf("the source shows %q", got)
	}
	a.report("app", "1")
	shows(t, "the source", h.works("cluster1"), "app=1/1")
}

// hurried is a clock with timers that run a hundred times as fast. It records their durations.
type hurried struct {
	clock.RealClock
	mu    sync.Mutex
	waits []time.Duration
}

func (c *hurried) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, d)
	return c.RealClock.NewTimer(d / 100)
}

func (c *hurried) noted() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waits)
}

// TestTrouble04Backoff: if every connection is refused, each client waits between 100 ms and 10 s
// between attempts, with its own jitter.
func TestTrouble04Backoff(t *testing.T) {
	t.Parallel()
	const attempts = 16
	s := &scene{t: t}
	var all [][]time.Duration
	for i := range 2 {
		refusing := newRefuser(t)
		fast := &hurried{}
		transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + refusing.listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		source, err := work.NewSource(transport, work.SourceOptions{SourceID: fmt.Sprintf("s%d", i), Clock: fast})
		if err != nil {
			t.Fatal(err)
		}
		c := &client{t: s.t, log: &logbook{}}
		c.start(source)
		eventually(t, "attempts to connect", func() string {
			return unless(refusing.count() >= attempts, fmt.Sprintf("%d attempts", refusing.count()))
		})
		c.stop()
		waits := fast.noted()
		if len(waits) > refusing.count() {
			t.Errorf("%d waits between %d attempts", len(waits), refusing.count())
		}
		all = append(all, waits[:attempts-1])
	}
	for _, waits := range all {
		for i, wait := range waits {
			if wait < 100*time.Millisecond || wait > 10*time.Second {
				t.Errorf("wait %d is %v", i, wait)
			}
		}
		if waits[0] > 200*time.Millisecond || waits[attempts-2] < 5*time.Second {
			t.Errorf("waits from %v to %v", waits[0], waits[attempts-2])
		}
	}
	if slices.Equal(all[0], all[1]) {
		t.Errorf("two clients keep in step: %v", all[0])
	}
}

// refuser accepts connections and ends them.
type refuser struct {
	listener net.Listener
	mu       sync.Mutex
	attempts int
}

func newRefuser(t *testing.T) *refuser {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &refuser{listener: listener}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.attempts++
			r.mu.Unlock()
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return r
}

func (r *refuser) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts
}
