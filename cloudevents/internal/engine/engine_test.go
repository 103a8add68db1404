// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

func expectTopics(t *testing.T, f *fakeTransport, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, f.topics(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("published topics (-want +got):\n%s", diff)
	}
}

func expectEnds(t *testing.T, n *note, want ...error) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, n.ends(), cmpopts.EquateErrors(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s settled with (-want +got):\n%s", n.topic, diff)
	}
}

func TestNewOnUsedTransport(t *testing.T) {
	if _, err := engine.New(&fakeTransport{claimed: true}, options("a")); !errors.Is(err, cloudevents.ErrClaimed) {
		t.Errorf("got error %v, want ErrClaimed", err)
	}
}

// TestOrder checks that requests are sent before all other events, and work events before answers.
func TestOrder(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.handler.requests = []engine.Item{&note{topic: "request"}}
		r.engine.Enqueue(engine.LaneLive, &note{topic: "work"}) // before the connection exists
		r.start()
		expectTopics(t, r.transport, "request", "work")
		select {
		case <-r.engine.Ready():
		default:
			t.Error("not ready although the request is acknowledged")
		}
	})
}

// TestReadyWaitsForRequests checks that the engine is ready only after the broker has acknowledged
// the requests.
func TestReadyWaitsForRequests(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.handler.requests = []engine.Item{&note{topic: "request"}}
		r.start()
		expectTopics(t, r.transport, "request")
		select {
		case <-r.engine.Ready():
			t.Error("ready before the broker has the request")
		default:
		}
		r.transport.current().settleHeld(nil)
		synctest.Wait()
		<-r.engine.Ready()
	})
}

// TestReadyNeedsTheBroker checks that the engine is not ready if the connection ends before the
// broker has the requests. The order in which the end is noticed does not matter.
func TestReadyNeedsTheBroker(t *testing.T) {
	for range 50 { // the order is random
		withRig(t, engine.Options{}, func(r *rig) {
			r.handler.requests = []engine.Item{&note{topic: "request"}}
			r.transport.setHold(true)
			r.start()
			r.transport.setRefuse(errTest)
			conn := r.transport.current()
			conn.settleHeld(cloudevents.ErrConnectionLost)
			synctest.Wait()
			conn.cut(errTest)
			synctest.Wait()
			select {
			case <-r.engine.Ready():
				t.Error("ready although the broker never had the request")
			default:
			}
			r.transport.setHold(false)
			r.transport.setRefuse(nil)
			time.Sleep(time.Second)
			select {
			case <-r.engine.Ready():
			default:
				t.Error("not ready although the next connection's request is acknowledged")
			}
		})
	}
}

// TestAnswerToEarlyEvent checks an answer to an event that arrives before Connect returns. It is
// sent on that connection, after the requests. If the attempt fails, it is given up.
func TestAnswerToEarlyEvent(t *testing.T) {
	tests := []struct {
		name   string
		refuse error
		topics []string
		end    error
	}{
		{"connected", nil, []string{"request", "answer"}, nil},
		{"refused after all", errTest, nil, cloudevents.ErrConnectionLost},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, engine.Options{}, func(r *rig) {
				answer := &note{topic: "answer"}
				r.handler.requests = []engine.Item{&note{topic: "request"}}
				r.transport.refuse = tc.refuse
				r.transport.early = func() { r.engine.Enqueue(engine.LaneBulk, answer) }
				r.start()
				expectTopics(t, r.transport, tc.topics...)
				expectEnds(t, answer, tc.end)
			})
		})
	}
}

// TestSettledMayEnqueue checks that an item that cannot be sent may enqueue another item in its
// place.
func TestSettledMayEnqueue(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		short := &note{topic: "short"}
		long := &note{topic: "long", then: func() { r.engine.Enqueue(engine.LaneLive, short) }}
		r.transport.reject = map[string]error{"long": &cloudevents.TooLargeError{Topic: "long", Size: 2000, Limit: 1000}}
		r.start()
		r.engine.Enqueue(engine.LaneLive, long)
		expectTopics(t, r.transport, "short")
		expectEnds(t, short, nil)
	})
}

// TestLiveSurvives checks that an unacknowledged Live item is sent once more on the next
// connection, and that a Bulk item is not.
func TestLiveSurvives(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		work, answer := &note{topic: "work"}, &note{topic: "answer"}
		r.start()
		r.engine.Enqueue(engine.LaneLive, work)
		r.engine.Enqueue(engine.LaneBulk, answer)
		expectTopics(t, r.transport, "work", "answer")
		r.transport.current().cut(errTest)
		synctest.Wait()
		expectEnds(t, work)
		expectEnds(t, answer, cloudevents.ErrConnectionLost)
		r.transport.setHold(false)
		time.Sleep(time.Second)
		expectTopics(t, r.transport, "work", "answer", "work")
		expectEnds(t, work, nil)
		if r.engine.Pending() != 0 {
			t.Errorf("%d items pending", r.engine.Pending())
		}
	})
}

// TestLiveCoalesces checks that an item is queued only once, and is sent again if it changed while
// in flight.
func TestLiveCoalesces(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		work := &note{topic: "work"}
		r.transport.setRefuse(errTest)
		r.start()
		for range 3 {
			r.engine.Enqueue(engine.LaneLive, work)
		}
		r.transport.setRefuse(nil)
		time.Sleep(time.Second)
		expectTopics(t, r.transport, "work")
		r.engine.Enqueue(engine.LaneLive, work)
		expectTopics(t, r.transport, "work", "work")
		if !r.engine.Admits(work, 1) || r.engine.Admits(&note{}, 1) {
			t.Error("a limit of one must admit the item that is there and no other")
		}
		r.transport.current().settleHeld(nil)
		expectEnds(t, work, nil)
	})
}

// TestBulkIsNotStarved checks that answers are sent although Live items are always queued.
func TestBulkIsNotStarved(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.start()
		r.transport.mu.Lock() // keep the engine from publishing while the queues fill
		r.engine.Enqueue(engine.LaneLive, &note{topic: "first"})
		for i := range 40 {
			r.engine.Enqueue(engine.LaneLive, &note{topic: fmt.Sprint("work", i)})
		}
		r.engine.Enqueue(engine.LaneBulk, &note{topic: "answer"})
		r.transport.mu.Unlock()
		synctest.Wait()
		topics := r.transport.topics()
		for i, topic := range topics {
			if topic == "answer" && (i < 5 || i > 20) {
				t.Errorf("the answer went out as number %d of %d", i, len(topics))
			}
		}
		if len(topics) != 42 {
			t.Errorf("%d messages were published, want 42", len(topics))
		}
	})
}

// TestBackoff checks the pace of attempts: close together at first, and at most ten seconds apart.
// A permanent failure is retried at the slowest pace, and Healthy returns the failure.
func TestBackoff(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setRefuse(errTest)
		r.start()
		time.Sleep(10 * time.Minute)
		attempts := r.transport.attempted()
		for i := 1; i < len(attempts); i++ {
			gap := attempts[i].Sub(attempts[i-1])
			if gap < 100*time.Millisecond || gap > 10*time.Second || i == 1 && gap > 130*time.Millisecond {
				t.Errorf("%s between attempts %d and %d", gap, i-1, i)
			}
		}
		if n := len(attempts); n < 60 || n > 100 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if err := r.engine.Healthy(); !errors.Is(err, errTest) {
			t.Errorf("Healthy: %v", err)
		}
		r.transport.setRefuse(nil)
		time.Sleep(10 * time.Second)
		if err := r.engine.Healthy(); err != nil {
			t.Error(err)
		}
		r.transport.setRefuse(&cloudevents.PermanentError{Err: errTest})
		r.transport.current().cut(errTest)
		time.Sleep(time.Minute)
		if n := len(r.transport.attempted()) - len(attempts); n > 9 {
			t.Errorf("%d attempts at something permanent in a minute", n)
		}
	})
}

// TestQuickReconnect checks that the first event is sent within one second after an outage of half
// a second.
func TestQuickReconnect(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.start()
		time.Sleep(time.Minute)
		r.transport.setRefuse(errTest)
		r.transport.current().cut(errTest)
		time.Sleep(500 * time.Millisecond)
		r.transport.setRefuse(nil)
		r.engine.Enqueue(engine.LaneLive, &note{topic: "work"})
		time.Sleep(time.Second)
		expectTopics(t, r.transport, "work")
	})
}

// TestDrain checks that queued events are still published after the context ends, for up to
// DrainTimeout.
func TestDrain(t *testing.T) {
	withRig(t, engine.Options{QPS: 10, Burst: 1, DrainTimeout: 2 * time.Second}, func(r *rig) {
		r.start()
		for i := range 10 {
			r.engine.Enqueue(engine.LaneLive, &note{topic: fmt.Sprint(i)})
		}
		r.stop()
		began := time.Now()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
		if took := time.Since(began); took > 2*time.Second || len(r.transport.topics()) != 10 {
			t.Errorf("drained %d of 10 in %s", len(r.transport.topics()), took)
		}
	})
}

func TestDrainTimesOut(t *testing.T) {
	withRig(t, engine.Options{DrainTimeout: time.Second}, func(r *rig) {
		r.transport.setHold(true)
		work := &note{topic: "work"}
		r.engine.Enqueue(engine.LaneLive, work)
		r.start()
		began := time.Now()
		r.end()
		if took := time.Since(began); took != time.Second {
			t.Errorf("Start returned after %s, want 1s", took)
		}
		expectEnds(t, work)
	})
}

func TestRateLimit(t *testing.T) {
	withRig(t, engine.Options{QPS: 10, Burst: 5}, func(r *rig) {
		r.start()
		for i := range 100 {
			r.engine.Enqueue(engine.LaneLive, &note{topic: fmt.Sprint(i)})
		}
		time.Sleep(2 * time.Second)
		if n := len(r.transport.topics()); n < 24 || n > 26 {
			t.Errorf("%d events after two seconds at 10 a second with a burst of 5", n)
		}
	})
}

func TestStartTwice(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.start()
		if err := r.engine.Start(context.Background()); !errors.Is(err, cloudevents.ErrStarted) {
			t.Errorf("a second Start returned %v", err)
		}
		r.end()
		if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "stopped since") {
			t.Errorf("Healthy after the end: %v", err)
		}
		if r.handler.connected != 1 {
			t.Errorf("connected %d times", r.handler.connected)
		}
	})
}
