// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// TestReconnectAfterShortOutage checks that the first event is sent within one second after an outage of half
// a second.
func TestReconnectAfterShortOutage(t *testing.T) {
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

// TestBurstDefault checks that without a Burst, the engine sends the events of one second of QPS at
// once.
func TestBurstDefault(t *testing.T) {
	for qps, want := range map[float32]int{10: 10, 2.5: 3, 0.5: 1} {
		withRig(t, engine.Options{QPS: qps, DrainTimeout: -1}, func(r *rig) {
			r.start()
			for i := range 20 {
				r.engine.Enqueue(engine.LaneLive, &note{topic: fmt.Sprint(i)})
			}
			synctest.Wait()
			if n := len(r.transport.topics()); n != want {
				t.Errorf("%d events at once with a QPS of %v, want %d", n, qps, want)
			}
		})
	}
}
