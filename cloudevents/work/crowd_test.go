// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// crowd is a source and agents over a real broker, all with informers. The agents report on each work at once.
type crowd struct {
	tb       testing.TB
	source   *work.Source
	agents   []*work.Agent
	meter    meter
	ticks    chan time.Time
	reported atomic.Pointer[func(*workv1.ManifestWork)] // a work's current generation was reported on
}

// onDemand is an interval whose ticker ticks when the crowd says so.
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
func (c *crowdClock) Stop()               {}

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
	if err := c.source.InventoryComplete(context.Background()); err != nil { // else each agent waits for works to come
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
		if _, err := works.Patch(context.Background(), w.Name, types.MergePatchType, reportOn(w.Generation), metav1.PatchOptions{}, "status"); err != nil {
			c.tb.Error(err)
		}
	}
	benchInformer(c.tb, agent.Clientset(), cache.ResourceEventHandlerFuncs{AddFunc: report, UpdateFunc: func(_, obj any) { report(obj) }})
}

func clusterName(i int) string { return fmt.Sprintf("cluster%d", i) }

func reportOn(generation int64) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"},`+
		`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, generation)
}

func observed(w *workv1.ManifestWork) int64 {
	if len(w.Status.Conditions) == 0 {
		return 0
	}
	return w.Status.Conditions[0].ObservedGeneration
}

func (c *crowd) onReported(do func(*workv1.ManifestWork)) { c.reported.Store(&do) }

// create makes n works whose names begin with prefix, all of which are reported on when it returns.
func (c *crowd) create(prefix string, n int) {
	value := strings.Repeat("v", 900) // with its ConfigMap about 1 KiB
	c.trips(n, benchAhead, func(i int) error {
		_, err := c.source.Clientset().WorkV1().ManifestWorks(clusterName(i%len(c.agents))).
			Create(context.Background(), newWork(fmt.Sprintf("%s%d", prefix, i), value), metav1.CreateOptions{})
		return err
	})
}

// trips begins n operations, of which so many are under way at most, and waits until n works were reported on. No work
// may be changed again while a change of it is under way, since one report may then tell of both.
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

// complete tells the source that it has all its works, and waits until that was answered.
func (c *crowd) complete() {
	if err := c.source.InventoryComplete(context.Background()); err != nil {
		c.tb.Fatal(err)
	}
	c.quiet()
}

// resync makes the source and all agents compare what they have.
func (c *crowd) resync() { c.ticks <- time.Now() }

// quiet waits until nothing was published for a while.
func (c *crowd) quiet() {
	for begin := time.Now().UnixNano(); ; {
		rest := 500*time.Millisecond - time.Duration(time.Now().UnixNano()-max(begin, c.meter.last.Load()))
		if rest <= 0 {
			return
		}
		time.Sleep(rest)
	}
}

// meter counts what is published.
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
	for was := c.meter.largest.Load(); size > was && !c.meter.largest.CompareAndSwap(was, size); was = c.meter.largest.Load() {
	}
	c.meter.last.Store(time.Now().UnixNano())
	return c.Conn.Publish(ctx, m, done)
}

// liveMemory collects garbage and returns the bytes of heap and of stacks that are in use.
func liveMemory() (heap, stack int64) {
	var m runtime.MemStats
	for range 2 { // what has a finalizer goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}
