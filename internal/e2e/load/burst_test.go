// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

var burstWorks = flag.Int("load.works", 3000,
	"how many works and statuses TestBurstBeyondBrokerQueueIsRepaired has; the promise is for 20000")

// burstRepair is the time limit for the repair of ten thousand messages that were lost at the same
// time.
const burstRepair = 5 * time.Minute

// TestBurstBeyondBrokerQueueIsRepaired: works are created, or reported on, while the store of one
// side stands still. Mosquitto drops messages that exceed its queue, and reports this to neither
// side. In the end nothing is missing, and no connection breaks because of it.
func TestBurstBeyondBrokerQueueIsRepaired(t *testing.T) {
	for _, slow := range []string{"agent", "source"} {
		t.Run("slow "+slow, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{DefaultLimits: true, Lines: []string{"sys_interval 1"}})
			dropped := watchDropped(t, broker)
			stalled := &stallingStore{Store: work.NewMemoryStore()}
			stores := map[string]work.Store{"agent": work.NewMemoryStore(), "source": work.NewMemoryStore()}
			stores[slow] = stalled
			b := newBurst(t, broker, stores["source"], stores["agent"])
			if slow == "agent" {
				close(b.reporting)
				b.run(*burstWorks, stalled, dropped, func() {
					b.create(*burstWorks)
					eventually(t, "specs are sent", &b.sourceWire.specs, int64(*burstWorks))
				})
				return
			}
			b.create(*burstWorks)
			eventually(t, "works are at the agent", &b.arrived, int64(*burstWorks))
			before := b.agentWire.statuses.Load() // they confirm that the works have arrived
			b.run(*burstWorks, stalled, dropped, func() {
				close(b.reporting)
				eventually(t, "statuses are sent", &b.agentWire.statuses, before+int64(*burstWorks))
			})
		})
	}
}

// stallingStore is a store that can be stalled.
type stallingStore struct {
	work.Store
	stall sync.RWMutex // locked while stalled
}

func (s *stallingStore) Apply(ctx context.Context, changes []work.Change) error {
	s.stall.RLock()
	defer s.stall.RUnlock()
	return s.Store.Apply(ctx, changes)
}

// eventually waits until a counter reaches a value.
func eventually(t *testing.T, what string, counter *atomic.Int64, least int64) {
	t.Helper()
	e2etest.Eventually(t, what, func() error {
		if n := counter.Load(); n < least {
			return fmt.Errorf("got %d of %d", n, least)
		}
		return nil
	})
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
	if _, err := client.Connect(t.Context(),
		&paho.Connect{ClientID: "dropped", CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	_, err = client.Subscribe(t.Context(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "$SYS/broker/publish/messages/dropped"}}})
	if err != nil {
		t.Fatal(err)
	}
	return dropped
}

// burst holds a source, an agent, and a work controller that reports on each work immediately.
type burst struct {
	t                     *testing.T
	source                *work.Source
	agent                 *work.Agent
	sourceWire, agentWire *wire
	arrived, reported     atomic.Int64  // works at the agent, statuses at the source
	reporting             chan struct{} // closed when the controller may report
}

func newBurst(t *testing.T, broker *mosquitto.Broker, sourceStore, agentStore work.Store) *burst {
	t.Helper()
	options := mqtt.Options{BrokerURL: broker.URL()}
	b := &burst{t: t, sourceWire: newWire(t, options), agentWire: newWire(t, options), reporting: make(chan struct{})}
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
	if b.agent, err = work.NewAgent(b.agentWire, work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"},
		Store: agentStore}); err != nil {
		t.Fatal(err)
	}
	start(t, b.agent)
	b.startController()
	return b
}

// startController reports on works in many goroutines.
func (b *burst) startController() {
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	queue := make(chan string, 100_000)
	for range 256 {
		go func() {
			select {
			case <-b.reporting:
			case <-ctx.Done():
			}
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

func (b *burst) create(works int) {
	parallel(b.t, 256, works, func(i int) error {
		return create(b.source.Clientset(), cluster, fmt.Sprintf("work%d", i), "v")
	})
}

// run makes a burst while a store stands still, and waits until the source shows the status of each
// work.
func (b *burst) run(works int, store *stallingStore, dropped *atomic.Int64, burst func()) {
	t, began := b.t, time.Now()
	store.stall.Lock()
	resume := sync.OnceFunc(store.stall.Unlock)
	defer resume()
	burst()
	eventually(t, "messages are dropped", dropped, 1)
	resume()
	took := time.Since(began)
	for b.reported.Load() < int64(works) && time.Since(began) < burstRepair {
		time.Sleep(50 * time.Millisecond)
	}
	if missing, unreported := int64(works)-b.arrived.Load(), int64(works)-b.reported.Load(); missing > 0 ||
		unreported > 0 {
		t.Errorf("%s after the burst, %d of %d works are missing at the agent and %d statuses at the source", burstRepair,
			missing, works, unreported)
	}
	t.Logf("the burst took %s, and all is whole after %s; sent: %d specs, %d statuses, %d other events, %d KB by the "+
		"source, %d KB by the agent; dropped: %d",
		took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond),
		b.sourceWire.specs.Load(), b.agentWire.statuses.Load(), b.sourceWire.others.Load()+b.agentWire.others.Load(),
		b.sourceWire.bytes.Load()>>10, b.agentWire.bytes.Load()>>10, dropped.Load())
	if s, a := b.sourceWire.connects.Load(), b.agentWire.connects.Load(); s != 1 || a != 1 {
		t.Errorf("the source connected %d times and the agent %d times, want once each", s, a)
	}
}
