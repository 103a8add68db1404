// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// TestRequestsAreSentFirst checks that requests are sent before all other events, and work events before answers.
func TestRequestsAreSentFirst(t *testing.T) {
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

// TestAnswerToEventBeforeConnectReturns checks an answer to an event that arrives before Connect returns. It is
// sent on that connection, after the requests. If the attempt fails, it is given up.
func TestAnswerToEventBeforeConnectReturns(t *testing.T) {
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

// TestLiveItemSurvivesConnection checks that an unacknowledged Live item is sent once more on the next
// connection, and that a Bulk item is not.
func TestLiveItemSurvivesConnection(t *testing.T) {
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
				t.Errorf("the answer was published as number %d of %d", i, len(topics))
			}
		}
		if len(topics) != 42 {
			t.Errorf("%d messages were published, want 42", len(topics))
		}
	})
}
