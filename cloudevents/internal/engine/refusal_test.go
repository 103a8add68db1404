// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// errBusy is a temporary refusal.
var errBusy = &cloudevents.TemporaryError{Err: errTest}

// logged counts the log lines that contain a text.
func (r *rig) logged(text string) int {
	synctest.Wait()
	return strings.Count(r.log.String(), text)
}

// TestUnpublishableItemIsDropped checks that an item that no connection can send is given up. The connection and the
// other items are not affected.
func TestUnpublishableItemIsDropped(t *testing.T) {
	for name, lane := range map[string]engine.Lane{"Control": engine.LaneControl, "Live": engine.LaneLive,
		"Bulk": engine.LaneBulk} {
		t.Run(name, func(t *testing.T) {
			withRig(t, engine.Options{}, func(r *rig) {
				r.transport.reject = map[string]error{"bad": errTest}
				bad, good := &note{topic: "bad"}, &note{topic: "good"}
				r.start()
				r.engine.Enqueue(lane, bad)
				r.engine.Enqueue(lane, good)
				expectEnds(t, bad, errTest)
				expectEnds(t, good, nil)
				time.Sleep(time.Minute)
				if n := len(r.transport.attempted()); n != 1 {
					t.Errorf("%d connections in a minute, want 1", n)
				}
				if n := r.logged("Failed to publish an event"); n != 1 {
					t.Errorf("logged %d times, want once", n)
				}
			})
		})
	}
}

// TestItemThatEndsConnections checks an item that ends each connection on which it is sent. Other items still
// reach the broker, and the client still backs off.
func TestItemThatEndsConnections(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.fatal = map[string]bool{"bad": true}
		bad, good := &note{topic: "bad"}, &note{topic: "good"}
		r.start()
		r.engine.Enqueue(engine.LaneLive, bad)
		r.engine.Enqueue(engine.LaneLive, good)
		time.Sleep(time.Minute)
		expectEnds(t, bad)
		expectEnds(t, good, nil)
		if n := len(r.transport.attempted()); n > 30 {
			t.Errorf("%d connections in a minute", n)
		}
	})
}

// TestRefusedItemWaitsForNextConnection checks that an item that cannot be sent ends with the reason. An item that the
// broker refuses waits for the next connection.
func TestRefusedItemWaitsForNextConnection(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		large := &cloudevents.TooLargeError{Topic: "large", Size: 2000, Limit: 1000}
		r.transport.reject = map[string]error{"large": large}
		r.transport.nack = map[string]error{"forbidden": errTest, "hidden": large}
		r.start()
		bad, big, no, empty := &note{topic: "bad", err: errTest}, &note{topic: "large"}, &note{topic: "forbidden"},
			&note{topic: "empty", empty: true}
		hidden := &note{topic: "hidden"} // over a limit that the broker does not announce
		for _, n := range []*note{bad, big, hidden, no, empty} {
			r.engine.Enqueue(engine.LaneLive, n)
		}
		expectTopics(t, r.transport, "hidden", "forbidden")
		expectEnds(t, bad, errTest)
		expectEnds(t, big, large)
		expectEnds(t, hidden, large)
		expectEnds(t, no)
		expectEnds(t, empty, nil)
		if r.engine.Pending() != 1 {
			t.Errorf("%d items pending, want the refused one", r.engine.Pending())
		}
		time.Sleep(time.Hour)
		expectTopics(t, r.transport, "hidden", "forbidden") // the broker would refuse the same message again
		r.transport.setNack("forbidden", nil)
		r.transport.current().cut(errTest)
		time.Sleep(time.Second)
		expectTopics(t, r.transport, "hidden", "forbidden", "forbidden")
		expectEnds(t, no, nil)
	})
}

// TestTemporaryRefusal checks that an item that the broker refuses for now is published again on
// the same connection, with backoff. All other items are sent without delay.
func TestTemporaryRefusal(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setNack("busy", errBusy)
		busy := &note{topic: "busy"}
		r.start()
		r.engine.Enqueue(engine.LaneLive, busy)
		for i := range 60 {
			other := &note{topic: "other"}
			r.engine.Enqueue(engine.LaneLive, other)
			r.engine.Enqueue(engine.LaneLive, busy) // a new change does not end the backoff
			expectEnds(t, other, nil)
			time.Sleep(time.Second)
			if i == 0 && strings.Count(fmt.Sprint(r.transport.topics()), "busy") < 4 {
				t.Errorf("published %v in the first second, want busy several times", r.transport.topics())
			}
		}
		n := strings.Count(fmt.Sprint(r.transport.topics()), "busy")
		if n < 8 || n > 20 {
			t.Errorf("published %d times in a minute", n)
		}
		expectEnds(t, busy)
		r.transport.setNack("busy", nil)
		time.Sleep(10 * time.Second)
		expectEnds(t, busy, nil)
		if r.engine.Pending() != 0 || len(r.transport.attempted()) != 1 {
			t.Errorf("%d pending and %d connections, want none and one", r.engine.Pending(), len(r.transport.attempted()))
		}
		if logged := r.logged("refused for now: trying again"); logged != 1 {
			t.Errorf("logged %d times, want once", logged)
		}

		// The next refusal starts with a short backoff again, and is logged again.
		time.Sleep(time.Minute)
		r.transport.setNack("busy", errBusy)
		r.engine.Enqueue(engine.LaneLive, busy)
		synctest.Wait()
		r.transport.setNack("busy", nil)
		time.Sleep(200 * time.Millisecond)
		expectEnds(t, busy, nil, nil)
		if logged := r.logged("refused for now: trying again"); logged != 2 {
			t.Errorf("logged %d times, want twice", logged)
		}
	})
}

// TestTemporarilyRefusedRequest checks that the engine is not ready while the broker refuses a
// request for now.
func TestTemporarilyRefusedRequest(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		request := &note{topic: "request"}
		r.handler.requests = []engine.Item{request}
		r.transport.setNack("request", errBusy)
		r.start()
		time.Sleep(time.Second)
		select {
		case <-r.engine.Ready():
			t.Error("ready although the broker refused the request")
		default:
		}
		r.transport.setNack("request", nil)
		time.Sleep(10 * time.Second)
		expectEnds(t, request, nil)
		<-r.engine.Ready()
	})
}

// needed is a note that the engine requires to become ready.
type needed struct{ *note }

func (needed) Required() bool { return true }

// TestRefusedRequirement checks a required request that the broker refuses permanently. The engine
// reports the refusal and is not ready. It publishes the request again on the same connection,
// since access rules may change.
func TestRefusedRequirement(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		request := &note{topic: "request"}
		r.handler.requests = []engine.Item{needed{request}}
		r.transport.setNack("request", errTest)
		if err := r.engine.Refused(); err != nil {
			t.Errorf("refused before Start: %v", err)
		}
		r.start()
		time.Sleep(time.Minute)
		select {
		case <-r.engine.Ready():
			t.Error("ready although the broker refused the request")
		default:
		}
		if err := r.engine.Refused(); !errors.Is(err, errTest) || r.engine.Healthy() != nil {
			t.Errorf("refused for %v, health %v", err, r.engine.Healthy())
		}
		if n := len(r.transport.topics()); n < 8 || n > 20 {
			t.Errorf("published %d times in a minute", n)
		}
		if n := r.logged("a required request is refused"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		expectEnds(t, request)
		r.transport.setNack("request", nil)
		time.Sleep(10 * time.Second)
		expectEnds(t, request, nil)
		<-r.engine.Ready()
		if err := r.engine.Refused(); err != nil || len(r.transport.attempted()) != 1 {
			t.Errorf("refused for %v after %d connections", err, len(r.transport.attempted()))
		}

		// A later connection may be refused a request that an earlier connection was allowed.
		r.transport.setNack("request", errTest)
		r.transport.current().cut(errTest)
		time.Sleep(time.Second)
		if err := r.engine.Refused(); !errors.Is(err, errTest) {
			t.Errorf("on the second connection: %v", err)
		}
	})
}

// TestUnpublishableRequirement checks that a required request is given up if no attempt can publish
// it. The engine is not ready until a connection can publish it.
func TestUnpublishableRequirement(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		request := &note{topic: "request"}
		r.handler.requests = []engine.Item{needed{request}}
		r.transport.reject = map[string]error{"request": errTest}
		r.start()
		time.Sleep(time.Minute)
		expectEnds(t, request, errTest)
		select {
		case <-r.engine.Ready():
			t.Error("ready without its request")
		default:
		}
		if err := r.engine.Refused(); !errors.Is(err, errTest) {
			t.Error(err)
		}
	})
}

// TestPostponedItemsWhenConnectionEnds checks that postponed Bulk items end with their connection, and that
// postponed Live items are sent on the next connection.
func TestPostponedItemsWhenConnectionEnds(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		live, bulk := &note{topic: "live"}, &note{topic: "bulk"}
		r.transport.setNack("live", errBusy)
		r.transport.setNack("bulk", errBusy)
		r.start()
		r.engine.Enqueue(engine.LaneLive, live)
		r.engine.Enqueue(engine.LaneBulk, bulk)
		expectTopics(t, r.transport, "live", "bulk")
		r.transport.setNack("live", nil)
		r.transport.current().cut(errTest)
		expectEnds(t, bulk, cloudevents.ErrConnectionLost)
		time.Sleep(200 * time.Millisecond)
		expectTopics(t, r.transport, "live", "bulk", "live")
		expectEnds(t, live, nil)
	})
}

// TestPostponedThenInterrupted checks an item with two publications in flight: the broker refuses the
// first for now, and the connection ends before it answers the second. The item is sent again once.
func TestPostponedThenInterrupted(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		item := &note{topic: "item"}
		r.start()
		for range 2 {
			r.engine.Enqueue(engine.LaneLive, item)
			synctest.Wait()
		}
		conn := r.transport.current()
		held := conn.takeHeld()
		conn.held = held[1:]
		held[0](errBusy)
		r.transport.setHold(false)
		conn.cut(errTest)
		time.Sleep(time.Second)
		expectTopics(t, r.transport, "item", "item", "item")
		expectEnds(t, item, nil)
	})
}

// TestDrainOfPostponedItem checks that the drain waits for the end of a refusal, for up to
// DrainTimeout.
func TestDrainOfPostponedItem(t *testing.T) {
	for name, relents := range map[string]bool{"Relents": true, "Insists": false} {
		t.Run(name, func(t *testing.T) {
			withRig(t, engine.Options{DrainTimeout: 2 * time.Second}, func(r *rig) {
				item := &note{topic: "busy"}
				r.transport.setNack("busy", errBusy)
				r.start()
				r.engine.Enqueue(engine.LaneLive, item)
				synctest.Wait()
				began := time.Now()
				r.stop()
				synctest.Wait()
				if relents {
					r.transport.setNack("busy", nil)
				}
				if err := <-r.done; err != nil {
					t.Error(err)
				}
				r.done <- nil
				took := time.Since(began)
				if relents && (took > time.Second || len(item.ends()) != 1) || !relents && took != 2*time.Second {
					t.Errorf("Start returned after %v, the item has settled with %v", took, item.ends())
				}
			})
		})
	}
}

// TestRefusedItemTakesNoRoom checks that items which access rules forbid do not count against the limit
// of the outbox. This applies across connections and while disconnected.
func TestRefusedItemTakesNoRoom(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setNack("forbidden", errTest)
		forbidden, other := &deniable{note: note{topic: "forbidden"}}, &note{topic: "other"}
		r.start()
		r.engine.Enqueue(engine.LaneLive, forbidden)
		synctest.Wait()
		admits := func(when string) {
			t.Helper()
			if !r.engine.Admits(other, 1) {
				t.Errorf("%s: the outbox with a limit of 1 is full of refused items", when)
			}
		}
		admits("connected")
		if n := r.engine.Pending(); n != 1 {
			t.Errorf("%d items pending, want the refused one", n)
		}
		r.transport.setRefuse(errTest)
		r.transport.current().cut(errTest)
		time.Sleep(time.Minute)
		admits("disconnected")
		r.transport.setRefuse(nil)
		time.Sleep(time.Minute)
		admits("connected again")
		if n := len(forbidden.refusals); n != 2 {
			t.Errorf("the item was notified %d times, want once for each connection", n)
		}

		r.transport.setNack("forbidden", nil)
		r.transport.current().cut(errTest)
		time.Sleep(time.Minute)
		expectEnds(t, &forbidden.note, nil)
		r.transport.setHold(true)
		r.engine.Enqueue(engine.LaneLive, forbidden)
		synctest.Wait()
		if r.engine.Admits(other, 1) {
			t.Error("an item that the broker accepts again does not count")
		}
	})
}

// deniable is a note that records refusals by the broker.
type deniable struct {
	note
	refusals []error
}

func (d *deniable) Refused(err error) { d.refusals = append(d.refusals, err) }

// TestRefusedThenAccepted checks an item with two publications in flight, of which the broker refuses
// the first and accepts the second. The broker may have either state, so the item is sent again.
func TestRefusedThenAccepted(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		item := &note{topic: "item"}
		r.start()
		for range 2 {
			r.engine.Enqueue(engine.LaneLive, item)
			synctest.Wait()
		}
		conn := r.transport.current()
		held := conn.takeHeld()
		held[0](errTest)
		held[1](nil)
		expectTopics(t, r.transport, "item", "item", "item")
		expectEnds(t, item)
		conn.settleHeld(nil)
		expectEnds(t, item, nil)
	})
}
