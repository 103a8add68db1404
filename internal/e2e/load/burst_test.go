// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/mosquitto"
)

var burstWorks = flag.Int("load.works", 3000, "how many works and statuses TestBurstBeyondBrokerQueueIsRepaired has; the promise is for 20000")

const (
	// burstRepair is how long the repair of ten thousand messages that were lost at once may take.
	burstRepair = 5 * time.Minute
	// slowApply is how long a slow store takes for each batch.
	slowApply = 100 * time.Millisecond
)

// TestBurstBeyondBrokerQueueIsRepaired: works are created, and reported on, faster than one side stores them. Mosquitto
// drops what exceeds its queue and tells neither side. In the end nothing is missing, and no connection broke for it.
func TestBurstBeyondBrokerQueueIsRepaired(t *testing.T) {
	for _, slow := range []string{"agent", "source"} {
		t.Run("slow "+slow, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{DefaultLimits: true, Lines: []string{"sys_interval 1"}})
			dropped := watchDropped(t, broker)
			stores := map[string]work.Store{"agent": work.NewMemoryStore(), "source": work.NewMemoryStore()}
			stores[slow] = &slowStore{stores[slow], slowApply}
			newBurst(t, broker, stores["source"], stores["agent"]).run(*burstWorks, dropped)
		})
	}
}

// watchDropped returns the broker's own count of messages that it has dropped.
func watchDropped(t *testing.T, broker *mosquitto.Broker) *atomic.Int64 {
	t.Helper()
	dropped := &atomic.Int64{}
	conn, err := net.Dial("tcp", broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			n, err := strconv.ParseInt(string(p.Packet.Payload), 10, 64)
			if err == nil {
				dropped.Store(n)
			}
			return true, err
		},
	}})
	if _, err := client.Connect(t.Context(), &paho.Connect{ClientID: "dropped", CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	_, err = client.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "$SYS/broker/publish/messages/dropped"}}})
	if err != nil {
		t.Fatal(err)
	}
	return dropped
}

// burst is a source, an agent and a work controller that reports on each work at once.
type burst struct {
	t                     *testing.T
	source                *work.Source
	agent                 *work.Agent
	sourceWire, agentWire *wire
	arrived, reported     atomic.Int64 // works at the agent, statuses at the source
}

func newBurst(t *testing.T, broker *mosquitto.Broker, sourceStore, agentStore work.Store) *burst {
	t.Helper()
	options := mqtt.Options{BrokerURL: broker.URL()}
	b := &burst{t: t, sourceWire: newWire(t, options), agentWire: newWire(t, options)}
	var err error
	if b.source, err = work.NewSource(b.sourceWire, work.SourceOptions{SourceID: "hub", Store: sourceStore}); err != nil {
		t.Fatal(err)
	}
	start(t, b.source)
	if err := b.source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	informer(t, b.source.Clientset(), cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		if !applied(before.(*workv1.ManifestWork)) && applied(now.(*workv1.ManifestWork)) {
			b.reported.Add(1)
		}
	}})
	if b.agent, err = work.NewAgent(b.agentWire, work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}, Store: agentStore}); err != nil {
		t.Fatal(err)
	}
	start(t, b.agent)
	b.startController()
	return b
}

// startController reports on works in many goroutines: a slow store must not make the agent wait.
func (b *burst) startController() {
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	queue := make(chan string, 100_000)
	for range 256 {
		go func() {
			for {
				select {
				case name := <-queue:
					if err := report(b.agent.Clientset(), cluster, name); err != nil && ctx.Err() == nil {
						b.t.Error(err)
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	informer(b.t, b.agent.Clientset(), cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		b.arrived.Add(1)
		queue <- obj.(*workv1.ManifestWork).Name
	}})
}

// burstTries is how many bursts may pass without a loss, as on a machine whose clients are slower than its broker.
const burstTries = 4

// run creates works at once, until the broker loses some, and waits until the source shows the status of each.
func (b *burst) run(size int, dropped *atomic.Int64) {
	works, began := 0, time.Now()
	for range burstTries {
		began = time.Now()
		first := works
		works += size
		if b.flood(first, size, dropped) {
			break
		}
	}
	t := b.t
	if dropped.Load() == 0 && b.arrived.Load()+b.reported.Load() == 2*int64(works) {
		t.Fatal("nothing was lost, so this shows nothing")
	}
	for b.reported.Load() < int64(works) && time.Since(began) < burstRepair {
		time.Sleep(50 * time.Millisecond)
	}
	if missing, unreported := int64(works)-b.arrived.Load(), int64(works)-b.reported.Load(); missing > 0 || unreported > 0 {
		t.Errorf("%s after the burst, %d of %d works are missing at the agent and %d statuses at the source", burstRepair, missing, works, unreported)
	}
	t.Logf("whole after %s; sent: %d specs, %d statuses, %d other events, %d KB by the source, %d KB by the agent; dropped: %d",
		time.Since(began).Round(time.Millisecond), b.sourceWire.specs.Load(), b.agentWire.statuses.Load(), b.sourceWire.others.Load()+b.agentWire.others.Load(),
		b.sourceWire.bytes.Load()>>10, b.agentWire.bytes.Load()>>10, dropped.Load())
	if s, a := b.sourceWire.connects.Load(), b.agentWire.connects.Load(); s != 1 || a != 1 {
		t.Errorf("the source connected %d times and the agent %d times, want once each", s, a)
	}
}

// flood creates works at once. It reports whether some of their messages were lost.
func (b *burst) flood(first, works int, dropped *atomic.Int64) (lost bool) {
	t := b.t
	began := time.Now()
	parallel(t, 256, works, func(i int) error {
		return create(b.source.Clientset(), cluster, fmt.Sprintf("work%d", first+i), "v")
	})
	created := time.Since(began)
	// The end of the flood: whatever arrives without a repair has arrived. The broker's count comes each second.
	var last int64
	for still := 0; still < 4; still++ {
		time.Sleep(500 * time.Millisecond)
		if now := b.arrived.Load() + b.reported.Load(); now != last {
			last, still = now, 0
		}
	}
	t.Logf("%d works were created in %s; %d arrived and %d statuses came back before any repair; Mosquitto dropped %d messages",
		works, created.Round(time.Millisecond), b.arrived.Load(), b.reported.Load(), dropped.Load())
	return dropped.Load() > 0 || last < 2*int64(first+works)
}
