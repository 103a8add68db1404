// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// crowd is a source and agents that share a real broker. All have informers. The agents report on
// each work immediately.
type crowd struct {
	tb       testing.TB
	source   *work.Source
	agents   []*work.Agent
	meter    meter
	ticks    chan time.Time
	reported atomic.Pointer[func(*workv1.ManifestWork)] // called when the current generation of a work was reported on
}

// onDemand is an interval with a ticker that ticks only at resync.
const onDemand = 1000 * time.Hour

// NewTicker implements clock.WithTicker.
func (c *crowdClock) NewTicker(d time.Duration) clock.Ticker {
	if d == onDemand {
		return c
	}
	return c.RealClock.NewTicker(d)
}

type crowdClock struct {
	clock.RealClock
	ticks chan time.Time
}

func (c *crowdClock) C() <-chan time.Time { return c.ticks }

func (c *crowdClock) Stop() {}

func startCrowd(tb testing.TB, options mqtt.Options, agents int) *crowd {
	c := &crowd{tb: tb, ticks: make(chan time.Time)}
	c.onReported(func(*workv1.ManifestWork) {})
	var err error
	c.source, err = work.NewSource(&metered{benchTransport(tb, options), &c.meter},
		work.SourceOptions{SourceID: "hub", ResyncInterval: onDemand, Clock: &crowdClock{ticks: c.ticks}})
	if err != nil {
		tb.Fatal(err)
	}
	benchStart(tb, c.source)
	if err := c.source.InventoryComplete(context.Background()); err != nil { // otherwise agents wait for more works
		tb.Fatal(err)
	}
	benchInformer(tb, c.source.Clientset(), cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		was, is := before.(*workv1.ManifestWork), now.(*workv1.ManifestWork)
		if o := observed(is); o != observed(was) && o == is.Generation {
			(*c.reported.Load())(is)
		}
	}})
	for i := range agents {
		c.addAgent(options, i)
	}
	return c
}

func (c *crowd) addAgent(options mqtt.Options, i int) {
	cluster := clusterName(i)
	agent, err := work.NewAgent(&metered{benchTransport(c.tb, options), &c.meter},
		work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}})
	if err != nil {
		c.tb.Fatal(err)
	}
	c.agents = append(c.agents, agent)
	benchStart(c.tb, agent)
	works := agent.Clientset().WorkV1().ManifestWorks(cluster)
	report := func(obj any) {
		w := obj.(*workv1.ManifestWork)
		if w.DeletionTimestamp != nil || observed(w) == w.Generation {
			return
		}
		if _, err := works.Patch(context.Background(), w.Name, types.MergePatchType, reportOn(w.Generation),
			metav1.PatchOptions{}, "status"); err != nil {
			c.tb.Error(err)
		}
	}
	benchInformer(c.tb, agent.Clientset(),
		cache.ResourceEventHandlerFuncs{AddFunc: report, UpdateFunc: func(_, obj any) { report(obj) }})
}

func clusterName(i int) string { return fmt.Sprintf("cluster%d", i) }

func reportOn(generation int64) []byte {
	return fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"},`+
			`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, generation)
}

func observed(w *workv1.ManifestWork) int64 {
	if len(w.Status.Conditions) == 0 {
		return 0
	}
	return w.Status.Conditions[0].ObservedGeneration
}

func (c *crowd) onReported(do func(*workv1.ManifestWork)) { c.reported.Store(&do) }

// create creates n works with names that begin with prefix. It returns when all of them have been
// reported on.
func (c *crowd) create(prefix string, n int) {
	value := strings.Repeat("v", 900) // with its ConfigMap about 1 KiB
	c.trips(n, benchAhead, func(i int) error {
		_, err := c.source.Clientset().WorkV1().ManifestWorks(clusterName(i%len(c.agents))).
			Create(context.Background(), newWork(fmt.Sprintf("%s%d", prefix, i), value), metav1.CreateOptions{})
		return err
	})
}

// trips begins n operations, with at most underWay of them in progress, and waits until n works
// were reported on. begin must not change a work again during an earlier change, because a single
// report may then cover both changes.
func (c *crowd) trips(n, underWay int, begin func(i int) error) {
	ahead, done := make(chan struct{}, underWay), make(chan struct{})
	var reported atomic.Int64
	c.onReported(func(*workv1.ManifestWork) {
		<-ahead
		if reported.Add(1) == int64(n) {
			close(done)
		}
	})
	inParallel(c.tb, begin, func(jobs chan<- int) {
		for i := range n {
			ahead <- struct{}{}
			jobs <- i
		}
	})
	<-done
	c.onReported(func(*workv1.ManifestWork) {})
}

// complete declares that the source has all its works, and waits for the resulting events.
func (c *crowd) complete() {
	if err := c.source.InventoryComplete(context.Background()); err != nil {
		c.tb.Fatal(err)
	}
	c.quiet()
}

// resync starts a comparison of all works between the source and its agents.
func (c *crowd) resync() { c.ticks <- time.Now() }

// quiet waits until no event has been published for 500 ms.
func (c *crowd) quiet() {
	for begin := time.Now().UnixNano(); ; {
		rest := 500*time.Millisecond - time.Duration(time.Now().UnixNano()-max(begin, c.meter.last.Load()))
		if rest <= 0 {
			return
		}
		time.Sleep(rest)
	}
}

// meter counts published events.
type meter struct {
	specs, statuses, resyncs, largest, last atomic.Int64
}

func (m *meter) reset() {
	m.specs.Store(0)
	m.statuses.Store(0)
	m.resyncs.Store(0)
	m.largest.Store(0)
}

type metered struct {
	cloudevents.Transport
	meter *meter
}

func (t *metered) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	conn, err := t.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &meteredConn{conn, t.meter}, nil
}

type meteredConn struct {
	cloudevents.Conn
	meter *meter
}

func (c *meteredConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	switch kind := m.Event.Type(); {
	case strings.Contains(kind, "resync"):
		c.meter.resyncs.Add(1)
	case strings.Contains(kind, ".status."):
		c.meter.statuses.Add(1)
	case strings.Contains(kind, ".spec."):
		c.meter.specs.Add(1)
	}
	size := int64(len(m.Event.DataEncoded))
	for was := c.meter.largest.Load(); size > was &&
		!c.meter.largest.CompareAndSwap(was, size); was = c.meter.largest.Load() {
	}
	c.meter.last.Store(time.Now().UnixNano())
	return c.Conn.Publish(ctx, m, done)
}

// liveMemory collects garbage and returns the bytes of heap and stacks in use.
func liveMemory() (heap, stack int64) {
	var m runtime.MemStats
	for range 2 { // the second frees objects with finalizers
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

// startEmbedded runs a mochi broker until the end of the test and returns its address.
func startEmbedded(tb testing.TB) string {
	capabilities := mochi.NewDefaultServerCapabilities()
	// Above these limits, mochi drops messages although their publisher received a success.
	capabilities.MaximumInflight, capabilities.MaximumClientWritesPending = 65535, 65535
	server := mochi.New(&mochi.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(new(allowAll), nil); err != nil {
		tb.Fatal(err)
	}
	listener := listeners.NewTCP(listeners.Config{ID: "test", Address: "127.0.0.1:0"})
	if err := server.AddListener(listener); err != nil {
		tb.Fatal(err)
	}
	if err := server.Serve(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Close may block forever while mochi is about to detect the end of a connection.
		deadline := time.Now().Add(5 * time.Second)
		for atomic.LoadInt64(&server.Info.ClientsConnected) > 0 && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		_ = server.Close()
	})
	return listener.Address()
}

// allowAll allows all clients every operation. It also hides the Receive Maximum of clients from
// mochi, because mochi counts unacknowledged messages wrong and may hang.
type allowAll struct{ mochi.HookBase }

func (*allowAll) ID() string { return "test" }

func (*allowAll) Provides(question byte) bool {
	return question == mochi.OnConnectAuthenticate || question == mochi.OnACLCheck || question == mochi.OnPacketRead
}

func (*allowAll) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

func (*allowAll) OnACLCheck(*mochi.Client, string, bool) bool { return true }

func (*allowAll) OnPacketRead(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Connect {
		p.Properties.ReceiveMaximum = 0 // mochi treats 0 as no limit
	}
	return p, nil
}
