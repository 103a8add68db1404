// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// BenchmarkLatency: the latency of round trips at half the maximum rate of the raw echo, which is
// measured first. Latency counts from the time when a trip was due. "rawmqtt" is the raw echo
// itself at that rate: the share of the machine and the broker. Run it with -benchtime=20000x.
func BenchmarkLatency(b *testing.B) {
	rate := rawRate(b, mosquitto.Start(b, mosquitto.Options{}).Addr(), 10_000) / 2
	b.Run("rawmqtt", func(b *testing.B) {
		p := newPaced(b, rate)
		p.run(startRawEcho(b, mosquitto.Start(b, mosquitto.Options{}).Addr(), p.ended))
	})
	b.Run("structured", func(b *testing.B) {
		c := startCrowd(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, benchAgents)
		p := newPaced(b, rate)
		c.onReported(func(w *workv1.ManifestWork) {
			i, _ := strconv.Atoi(strings.TrimPrefix(w.Name, "work-"))
			p.ended(i)
		})
		value := strings.Repeat("v", 900)
		p.run(func(i int) error {
			_, err := c.source.Clientset().WorkV1().ManifestWorks(clusterName(i%benchAgents)).
				Create(context.Background(), newWork(fmt.Sprintf("work-%d", i), value), metav1.CreateOptions{})
			return err
		})
	})
}

// rawRate returns the raw echoes per second, measured over n echoes.
func rawRate(b *testing.B, addr string, n int) float64 {
	ahead := make(chan struct{}, benchAhead)
	begin := time.Now()
	inParallel(b, startRawEcho(b, addr, func(int) { <-ahead }), func(jobs chan<- int) {
		for i := range n {
			ahead <- struct{}{}
			jobs <- i
		}
	})
	for range benchAhead {
		ahead <- struct{}{}
	}
	return float64(n) / time.Since(begin).Seconds()
}

// inParallel runs begin(i) in benchPublishers goroutines for each job that feed sends.
func inParallel(tb testing.TB, begin func(i int) error, feed func(jobs chan<- int)) {
	jobs := make(chan int)
	var group sync.WaitGroup
	for range benchPublishers {
		group.Go(func() {
			for i := range jobs {
				if err := begin(i); err != nil {
					tb.Error(err)
				}
			}
		})
	}
	feed(jobs)
	close(jobs)
	group.Wait()
}

// paced begins b.N trips at a rate.
type paced struct {
	b         *testing.B
	rate      float64
	due       []atomic.Int64
	done      chan struct{}
	latencies []time.Duration // appended to by ended, which runs one call at a time
}

func newPaced(b *testing.B, rate float64) *paced {
	return &paced{b: b, rate: rate, due: make([]atomic.Int64, b.N), done: make(chan struct{})}
}

func (p *paced) ended(i int) {
	p.latencies = append(p.latencies, time.Duration(time.Now().UnixNano()-p.due[i].Load()))
	if len(p.latencies) == len(p.due) {
		close(p.done)
	}
}

func (p *paced) run(begin func(i int) error) {
	p.b.ResetTimer()
	start := time.Now()
	inParallel(p.b, begin, func(jobs chan<- int) {
		for i := range p.due {
			at := start.Add(time.Duration(float64(i) / p.rate * float64(time.Second)))
			time.Sleep(time.Until(at))
			p.due[i].Store(at.UnixNano())
			jobs <- i
		}
	})
	<-p.done
	p.b.ReportMetric(p.rate, "trips/s")
	reportLatencies(p.b, p.latencies, "")
}

// reportLatencies reports quantiles, in milliseconds.
func reportLatencies(b *testing.B, latencies []time.Duration, suffix string) {
	slices.Sort(latencies)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		d := latencies[min(len(latencies)-1, int(q*float64(len(latencies))))]
		b.ReportMetric(float64(d.Microseconds())/1000, name+"-ms"+suffix)
	}
}

// BenchmarkHeapPerWork: the live heap of a work of 1 KiB in the source, in its agent and in both
// informers, after its status has arrived. Run it with -benchtime=1x.
func BenchmarkHeapPerWork(b *testing.B) {
	for _, works := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("works=%d", works), func(b *testing.B) {
			c := startCrowd(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, benchAgents)
			before, _ := liveMemory()
			for i := range b.N {
				c.create(fmt.Sprintf("work%d-", i), works)
			}
			c.quiet()
			after, _ := liveMemory()
			runtime.KeepAlive(c)
			b.ReportMetric(float64(after-before)/float64(works*b.N), "heap-B/work")
		})
	}
}

// BenchmarkCachedWorks: the processor time of an update's round trip while few or many works are
// cached. Run it with -benchtime=20000x.
func BenchmarkCachedWorks(b *testing.B) {
	for _, gogc := range []int{100, 400} {
		for _, works := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("GOGC=%d/works=%d", gogc, works), func(b *testing.B) {
				defer debug.SetGCPercent(debug.SetGCPercent(gogc))
				c := startCrowd(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, benchAgents)
				c.create("work-", works)
				c.quiet()
				runtime.GC()
				order := rand.Perm(works)
				b.ResetTimer()
				used := processorTime()
				c.trips(b.N, benchAhead/4, func(i int) error { return c.update(order[i%works], fmt.Sprint("r", i)) })
				b.ReportMetric(float64((processorTime()-used).Microseconds())/float64(b.N), "cpu-us/event")
			})
		}
	}
}

// update gives a work another manifest.
func (c *crowd) update(i int, revision string) error {
	works := c.source.Clientset().WorkV1().ManifestWorks(clusterName(i % len(c.agents)))
	w, err := works.Get(context.Background(), fmt.Sprintf("work-%d", i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.Spec = newWork(w.Name, revision+strings.Repeat("v", 900)).Spec
	_, err = works.Update(context.Background(), w, metav1.UpdateOptions{})
	return err
}

// BenchmarkResync: source and agents compare 10,000 unchanged works. Meanwhile other works are
// created and reported on, one each 2 ms. Some of these are sent twice, because an agent may list
// its works while one is in transit. Run it with -benchtime=20x.
func BenchmarkResync(b *testing.B) {
	c := startCrowd(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, benchAgents)
	c.create("work-", 10_000)
	c.quiet()
	c.complete()
	c.meter.reset()
	c.resync()
	c.quiet()
	unchanged := map[string]int64{
		"specs": c.meter.specs.Load(), "statuses": c.meter.statuses.Load(), "lists": c.meter.resyncs.Load(),
		"B-largest": c.meter.largest.Load(),
	}
	b.ResetTimer()
	calm, busy := c.delays("calm-", 200, func() {}), []time.Duration{}
	for i := range b.N {
		busy = append(busy, c.delays(fmt.Sprintf("busy%d-", i), 200, c.resync)...)
		c.quiet()
	}
	for name, n := range unchanged {
		b.ReportMetric(float64(n), name)
	}
	reportLatencies(b, calm, "-calm")
	reportLatencies(b, busy, "-busy")
}

// delays makes n round trips, one each 2 ms, and calls meanwhile at the start. It returns the
// duration of each trip.
func (c *crowd) delays(prefix string, n int, meanwhile func()) []time.Duration {
	began := make([]atomic.Int64, n)
	var delays []time.Duration
	done := make(chan struct{})
	c.onReported(func(w *workv1.ManifestWork) {
		var i int
		if _, err := fmt.Sscanf(strings.TrimPrefix(w.Name, prefix), "%d", &i); err != nil ||
			!strings.HasPrefix(w.Name, prefix) {
			return
		}
		if delays = append(delays, time.Duration(time.Now().UnixNano()-began[i].Load())); len(delays) == n {
			close(done)
		}
	})
	meanwhile()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for i := range n {
		began[i].Store(time.Now().UnixNano())
		if _, err := c.source.Clientset().WorkV1().ManifestWorks(clusterName(i%len(c.agents))).
			Create(context.Background(), newWork(fmt.Sprintf("%s%d", prefix, i), "1"), metav1.CreateOptions{}); err != nil {
			c.tb.Error(err)
		}
		<-ticker.C
	}
	<-done
	return delays
}

// BenchmarkOutage: the time from the restart of the broker, after half a second, to the first round
// trip. Run it with -benchtime=10x.
func BenchmarkOutage(b *testing.B) {
	broker := mosquitto.Start(b, mosquitto.Options{})
	c := startCrowd(b, mqtt.Options{BrokerURL: broker.URL()}, benchAgents)
	c.create("work-", 1000)
	var took []time.Duration
	for i := range b.N {
		time.Sleep(1500 * time.Millisecond) // a client that is disconnected immediately waits longer each time
		took = append(took, c.outage(broker, fmt.Sprintf("outage%d-", i)))
	}
	reportLatencies(b, took, "")
}

// outage stops the broker for half a second. It returns the time from the restart to the report on
// a work that was created during the outage.
func (c *crowd) outage(broker *mosquitto.Broker, prefix string) time.Duration {
	broker.Kill()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		c.create(prefix, 1)
	}()
	time.Sleep(500 * time.Millisecond)
	broker.Restart()
	begin := time.Now()
	<-reported
	return time.Since(begin)
}

// BenchmarkIdleAgents: the memory of agents in one process, connected and synchronised, without
// informers. An operation is an agent: run it with -benchtime=10000x. Each agent needs an open
// file, here and in the broker.
func BenchmarkIdleAgents(b *testing.B) {
	options := mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}
	c := startCrowd(b, options, 0)
	heap, stack := c.idleAgents(options, b.N)
	b.ReportMetric(float64(heap)/float64(b.N), "heap-B/agent")
	b.ReportMetric(float64(stack)/float64(b.N), "stack-B/agent")
}

// idleAgents starts n agents without informers. When all have synchronised, it returns the memory
// that they use.
func (c *crowd) idleAgents(options mqtt.Options, n int) (heap, stack int64) {
	heapBefore, stackBefore := liveMemory()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // discards
	var running, connecting sync.WaitGroup
	c.tb.Cleanup(func() {
		cancel()
		running.Wait()
	})
	slots := make(chan struct{}, 64) // more would only fill the broker's backlog
	for i := range n {
		agent, err := work.NewAgent(benchTransport(c.tb, options),
			work.AgentOptions{ClusterName: clusterName(i), Sources: []string{"hub"}})
		if err != nil {
			c.tb.Fatal(err)
		}
		c.agents = append(c.agents, agent)
		slots <- struct{}{}
		running.Go(func() { _ = agent.Start(ctx) })
		connecting.Go(func() {
			<-agent.Ready()
			// List returns when the source has answered.
			if _, err := agent.Clientset().WorkV1().ManifestWorks(clusterName(i)).List(ctx, metav1.ListOptions{}); err != nil {
				c.tb.Error(err)
			}
			<-slots
		})
	}
	connecting.Wait()
	c.quiet()
	heap, stack = liveMemory()
	runtime.KeepAlive(c)
	return heap - heapBefore, stack - stackBefore
}
