// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// window is the number of bytes of the Bulk lane that may be in flight when another event is sent.
const window = 64 << 10

// fill enqueues n answers of the given size.
func (r *rig) fill(n, size int) []*note {
	notes := make([]*note, n)
	for i := range notes {
		notes[i] = &note{topic: "answer", size: size}
		r.engine.Enqueue(engine.LaneBulk, notes[i])
	}
	return notes
}

// expectAnswers checks the number of published answers, over all connections.
func (r *rig) expectAnswers(want int) {
	r.t.Helper()
	synctest.Wait()
	if n := strings.Count(strings.Join(r.transport.topics(), " "), "answer"); n != want {
		r.t.Errorf("%d answers were published, want %d", n, want)
	}
}

// TestBulkWindow checks that only a window of answers is in flight at once. Urgent events do not
// wait for these answers, nor for queued answers.
func TestBulkWindow(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.start()
		r.fill(20, window/4)
		r.expectAnswers(4)
		news, request := &note{topic: "work"}, &note{topic: "request"}
		for _, lane := range []engine.Lane{engine.LaneLive, engine.LaneControl} {
			for range 20 {
				r.engine.Enqueue(lane, &note{topic: "urgent"})
			}
		}
		r.engine.Enqueue(engine.LaneLive, news)
		r.engine.Enqueue(engine.LaneControl, request)
		r.expectAnswers(4)
		if n := len(r.transport.topics()); n != 46 {
			t.Errorf("%d messages were published, want 46: all but the answers beyond the window", n)
		}
		r.transport.current().settleHeld(nil)
		r.expectAnswers(8)
		expectEnds(t, news, nil)
		expectEnds(t, request, nil)
		r.transport.setHold(false)
		r.transport.current().settleHeld(nil)
		r.expectAnswers(20)
	})
}

// TestBulkWindowGrowsWithDistance checks that the window grows in proportion to the time that
// acknowledgements take.
func TestBulkWindowGrowsWithDistance(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.start()
		r.fill(400, window)
		r.expectAnswers(1)
		time.Sleep(100 * time.Millisecond)
		r.transport.current().settleHeld(nil)
		r.expectAnswers(1 + 100)
		time.Sleep(10 * time.Millisecond)
		r.transport.current().settleHeld(nil)
		r.expectAnswers(1 + 100 + 10)
		time.Sleep(time.Minute)
		r.transport.current().settleHeld(nil)
		r.expectAnswers(1 + 100 + 10 + 10)
	})
}

// TestBulkWindowAllowsOneLargeAnswer checks that an answer larger than the window is sent when the window has
// any room.
func TestBulkWindowAllowsOneLargeAnswer(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.start()
		r.fill(3, 2*window)
		for want := 1; want <= 3; want++ {
			r.expectAnswers(want)
			r.transport.current().settleHeld(nil)
		}
	})
}

// TestBulkWindowCountsAttributes checks that events without data use part of the window.
func TestBulkWindowCountsAttributes(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.start()
		r.fill(1000, 0)
		r.expectAnswers(128)
	})
}

// TestBulkWindowOpensForNextConnection checks that each connection starts with the whole window, even if the
// previous connection was lost.
func TestBulkWindowOpensForNextConnection(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.start()
		lost := r.fill(8, window/4)
		r.expectAnswers(4)
		r.transport.current().cut(errTest)
		time.Sleep(time.Second)
		for _, n := range lost {
			expectEnds(t, n, cloudevents.ErrConnectionLost)
		}
		r.fill(8, window/4)
		r.expectAnswers(4 + 4)
		r.transport.current().settleHeld(nil)
		r.expectAnswers(4 + 8)
	})
}

// TestBulkWindowAndFailures checks that failed events do not keep their part of the window.
func TestBulkWindowAndFailures(t *testing.T) {
	tests := []struct {
		name string
		set  func(*fakeTransport, *note)
		end  error
	}{
		{"not encodable", func(_ *fakeTransport, n *note) { n.err = errTest }, errTest},
		{"empty", func(_ *fakeTransport, n *note) { n.empty = true }, nil},
		{"rejected", func(f *fakeTransport, _ *note) { f.reject = map[string]error{"bad": errTest} }, errTest},
		{"refused", func(f *fakeTransport, _ *note) { f.setNack("bad", errTest) }, errTest},
		{"refused for now", func(f *fakeTransport, _ *note) {
			f.setNack("bad", errBusy)
			time.AfterFunc(time.Minute, func() { f.setNack("bad", nil) })
		}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, engine.Options{}, func(r *rig) {
				bad := &note{topic: "bad", size: window}
				tc.set(r.transport, bad)
				r.start()
				for range 3 {
					r.engine.Enqueue(engine.LaneBulk, bad)
				}
				time.Sleep(2 * time.Minute)
				expectEnds(t, bad, tc.end, tc.end, tc.end)
				r.transport.setHold(true)
				r.fill(8, window/4)
				r.expectAnswers(4)
			})
		})
	}
}

// TestBulkWindowWithRateLimit checks that an answer which waits for the rate limit at the end of a
// connection uses no part of the next window.
func TestBulkWindowWithRateLimit(t *testing.T) {
	withRig(t, engine.Options{QPS: 1, Burst: 1, DrainTimeout: -1}, func(r *rig) {
		r.start()
		r.fill(2, window)
		r.expectAnswers(1)
		r.transport.current().cut(errTest)
		time.Sleep(10 * time.Second)
		r.fill(2, window)
		time.Sleep(10 * time.Second)
		if topics := r.transport.topics(); len(topics) < 3 {
			t.Errorf("published %v: the window is closed", topics)
		}
	})
}
