// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestNotAuthorized checks that an event that access rules forbid is logged once and queued. It is
// sent on the next connection after the rules have changed. Other events do not wait.
func TestNotAuthorized(t *testing.T) {
	file := filepath.Join(t.TempDir(), "acl")
	writeFile(t, file, "topic readwrite loop/#\n")
	broker := mosquitto.Start(t, mosquitto.Options{Lines: []string{"acl_file " + file}})
	proxy := tcpproxy.Start(t, broker.Addr())
	j := &journal{}
	l := startLoop(t, j, mqtt.Options{BrokerURL: "mqtt://" + proxy.Addr()}, clocktesting.NewFakeClock(time.Now()))
	forbidden := &loopItem{cloudevents.Message{Topic: "forbidden", Event: sampleEvent()}}
	for range 3 {
		l.engine.Enqueue(engine.LaneLive, forbidden)
		l.roundTrip()
	}
	waitFor(t, "all but the forbidden event to be acknowledged", func() bool { return l.engine.Pending() == 1 })
	if l.clock.HasWaiters() {
		t.Error("there is a timer, want none before the next connection")
	}

	writeFile(t, file, "topic readwrite loop/#\ntopic write forbidden\n")
	process, err := os.FindProcess(broker.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGHUP); err != nil { // the broker reads its files again
		t.Fatal(err)
	}
	waitFor(t, "the broker to read its files", func() bool { return strings.Contains(broker.Log(), "Reloading config") })
	proxy.Cut()
	l.retry()
	l.roundTrip()
	waitFor(t, "the acknowledgement of the event", func() bool { return l.engine.Pending() == 0 })
	if n := j.count("refused: kept for the next connection"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if n := j.count("not authorized (PUBACK 0x87): check the broker's access rules for this user"); n == 0 {
		t.Error("the log contains no advice")
	}
}

// TestQuotaExceeded checks that an event over the quota of the broker is sent again on the same
// connection.
func TestQuotaExceeded(t *testing.T) {
	full := &atomic.Bool{}
	broker := startEmbedded(t, embeddedOptions{full: full})
	j := &journal{}
	l := startLoop(t, j, mqtt.Options{BrokerURL: broker.url()}, clocktesting.NewFakeClock(time.Now()))
	l.roundTrip()
	full.Store(true)
	e := sampleEvent()
	e.SetID("late")
	l.engine.Enqueue(engine.LaneLive, &loopItem{cloudevents.Message{Topic: l.topic, Event: e}})
	for range 3 {
		l.retry()
	}
	waitFor(t, "the backoff", l.clock.HasWaiters)
	if l.engine.Pending() != 1 {
		t.Errorf("%d events pending, want 1", l.engine.Pending())
	}
	full.Store(false)
	l.retry()
	select {
	case m := <-l.received:
		if m.Event.ID() != "late" {
			t.Errorf("got event %s", m.Event.ID())
		}
	case <-time.After(patience):
		t.Fatal("the event did not come")
	}
	waitFor(t, "the acknowledgement", func() bool { return l.engine.Pending() == 0 })
	if n := j.count("refused for now: trying again"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if err := l.attempts.next(t); err != nil || len(l.attempts.results) != 0 {
		t.Errorf("%d connections besides the first (%v), want none", len(l.attempts.results), err)
	}
}
