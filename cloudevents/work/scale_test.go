// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// These tests allow three times the limits of the benchmarks, because the machines may be busy.

// TestResyncOfUnchangedWorks: a resync of unchanged works sends no work and no status again, uses
// messages of a bounded size, and does not delay other works.
func TestResyncOfUnchangedWorks(t *testing.T) {
	c := startCrowd(t, mqtt.Options{BrokerURL: mosquitto.Start(t, mosquitto.Options{}).URL()}, 2)
	c.create("work-", unchangedWorks)
	c.quiet()
	c.complete()
	for range 2 { // the second time, hashes are known
		c.meter.reset()
		c.resync()
		c.quiet()
		specs, statuses, lists, largest := c.meter.specs.Load(), c.meter.statuses.Load(), c.meter.resyncs.Load(),
			c.meter.largest.Load()
		if specs != 0 || statuses != 0 || lists < unchangedWorks*200/(128<<10) || largest > 128<<10 {
			t.Errorf("%d specs, %d statuses, %d lists with up to %d bytes", specs, statuses, lists, largest)
		}
	}
	if raceDetector {
		return // the race detector slows everything down many times
	}
	var worst []time.Duration
	for i := range 5 {
		worst = append(worst, slices.Max(c.delays(fmt.Sprintf("other%d-", i), 100, c.resync)))
		c.quiet()
	}
	if slices.Min(worst) > 3*50*time.Millisecond {
		t.Errorf("in each resync, a round trip of another work took longer than 150 ms: %v", worst)
	}
}

// TestOutage: after a short outage of the broker, a work that was created during the outage arrives
// soon.
func TestOutage(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	c := startCrowd(t, mqtt.Options{BrokerURL: broker.URL()}, 2)
	c.create("work-", 10)
	time.Sleep(1500 * time.Millisecond) // a client that is disconnected immediately waits longer
	if took := c.outage(broker, "outage-"); took > 3*time.Second {
		t.Errorf("the first round trip after an outage took %v", took)
	}
}

// TestIdleAgentsAreSmall: thousands of agents fit into one process.
func TestIdleAgentsAreSmall(t *testing.T) {
	options := mqtt.Options{BrokerURL: mosquitto.Start(t, mosquitto.Options{}).URL()}
	const agents = 300
	heap, stack := startCrowd(t, options, 0).idleAgents(options, agents)
	if each := (heap + stack) / agents; each > 3*64<<10 && !raceDetector {
		t.Errorf("each agent has %d bytes of heap and stack", each)
	}
}
