// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	benchAgents     = 4
	benchPublishers = 16
	benchAhead      = 512 // round trips in progress
	rawOut, rawBack = 1500, 700
)

// BenchmarkRoundTrip: Create on the source, informer add on the agent, status patch, informer
// update on the source, for works of 1 KiB over Mosquitto. "rawmqtt" only moves the same bytes with
// paho.Client. "metrics" is "structured" with a registerer. Run it with -benchtime=10000x: each
// operation adds a work. cpu-us/trip is the processor time of this process.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("rawmqtt", func(b *testing.B) { benchRawEcho(b, mosquitto.Start(b, mosquitto.Options{}).Addr()) })
	over := func(b *testing.B, binary bool, registerer prometheus.Registerer) {
		dial := overMQTT(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL(), Binary: binary})
		benchWorks(b, dial(), dial, registerer)
	}
	b.Run("structured", func(b *testing.B) { over(b, false, nil) })
	b.Run("metrics", func(b *testing.B) { over(b, false, prometheus.NewRegistry()) })
	b.Run("binary", func(b *testing.B) { over(b, true, nil) })
}

// BenchmarkRoundTripEmbedded is BenchmarkRoundTrip over a mochi broker in this process. Run it with
// -benchtime=10000x too.
func BenchmarkRoundTripEmbedded(b *testing.B) {
	b.Run("rawmqtt", func(b *testing.B) { benchRawEcho(b, startEmbedded(b)) })
	b.Run("structured", func(b *testing.B) {
		dial := overMQTT(b, mqtt.Options{BrokerURL: "mqtt://" + startEmbedded(b)})
		benchWorks(b, dial(), dial, nil)
	})
}

// publishers runs begin(i) for each operation in benchPublishers goroutines, with at most
// benchAhead operations in progress. It waits until all operations have ended.
func publishers(b *testing.B, ahead chan struct{}, begin func(i int) error) {
	jobs := make(chan int)
	var group sync.WaitGroup
	for range benchPublishers {
		group.Go(func() {
			for i := range jobs {
				if err := begin(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	i, used := 0, processorTime()
	for b.Loop() {
		ahead <- struct{}{}
		jobs <- i
		i++
	}
	close(jobs)
	group.Wait()
	for range benchAhead {
		ahead <- struct{}{}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trips/s")
	b.ReportMetric(float64((processorTime()-used).Microseconds())/float64(b.N), "cpu-us/trip")
}

func benchRawEcho(b *testing.B, addr string) {
	ahead := make(chan struct{}, benchAhead)
	publishers(b, ahead, startRawEcho(b, addr, func(int) { <-ahead }))
}

// startRawEcho starts agents that echo each message, and a hub that calls returned when the echo of
// message i arrives. It returns the function that sends message i from the hub.
func startRawEcho(b *testing.B, addr string, returned func(i int)) func(i int) error {
	ctx := context.Background()
	for i := range benchAgents {
		received := make(chan uint64, benchAhead)
		agent := dialRaw(b, addr, fmt.Sprintf("/out/%d", i),
			func(p *paho.Publish) { received <- binary.BigEndian.Uint64(p.Payload) })
		var echoing sync.WaitGroup
		for range benchPublishers / benchAgents {
			echoing.Go(func() {
				back := bytes.Repeat([]byte("y"), rawBack)
				for n := range received {
					binary.BigEndian.PutUint64(back, n)
					if _, err := agent.Publish(ctx, &paho.Publish{QoS: 1, Topic: "/back", Payload: back}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		// The hub may receive the last echo before the agent receives the acknowledgement.
		b.Cleanup(func() {
			close(received)
			echoing.Wait()
		})
	}
	hub := dialRaw(b, addr, "/back", func(p *paho.Publish) { returned(int(binary.BigEndian.Uint64(p.Payload))) })
	buffers := sync.Pool{New: func() any { return new([rawOut]byte) }}
	return func(i int) error {
		buffer := buffers.Get().(*[rawOut]byte)
		defer buffers.Put(buffer)
		out := buffer[:]
		binary.BigEndian.PutUint64(out, uint64(i))
		_, err := hub.Publish(ctx, &paho.Publish{QoS: 1, Topic: fmt.Sprintf("/out/%d", i%benchAgents), Payload: out})
		return err
	}
}

func dialRaw(b *testing.B, addr, filter string, receive func(*paho.Publish)) *paho.Client {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			receive(p.Packet)
			return true, nil
		}},
	})
	if _, err := client.Connect(b.Context(), &paho.Connect{ClientID: uuid.NewString(), CleanStart: true,
		KeepAlive: 30}); err != nil {
		b.Fatal(err)
	}
	if _, err := client.Subscribe(b.Context(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	return client
}

func benchTransport(b testing.TB, options mqtt.Options) *mqtt.Transport {
	transport, err := mqtt.New(options)
	if err != nil {
		b.Fatal(err)
	}
	return transport
}

func benchStart(b testing.TB, p interface {
	Start(context.Context) error
	Ready() <-chan struct{}
}) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // discards
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	<-p.Ready()
}

func benchInformer(b testing.TB, c workclientset.Interface, handler cache.ResourceEventHandlerFuncs) {
	factory := workinformers.NewSharedInformerFactory(c, 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	if _, err := informer.AddEventHandler(handler); err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	b.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
}

// overMQTT returns a function that returns a transport.
func overMQTT(b *testing.B, options mqtt.Options) func() cloudevents.Transport {
	return func() cloudevents.Transport { return benchTransport(b, options) }
}

// benchWorks measures round trips between a source and agents. dial returns the transport of an
// agent.
func benchWorks(
	b *testing.B, hub cloudevents.Transport, dial func() cloudevents.Transport, registerer prometheus.Registerer,
) {
	ahead := make(chan struct{}, benchAhead)
	source, err := work.NewSource(hub, work.SourceOptions{SourceID: "hub", MetricsRegisterer: registerer})
	if err != nil {
		b.Fatal(err)
	}
	benchStart(b, source)
	if err := source.InventoryComplete(context.Background()); err != nil { // otherwise each agent waits for more works
		b.Fatal(err)
	}
	benchInformer(b, source.Clientset(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) {
			if len(before.(*workv1.ManifestWork).Status.Conditions) == 0 &&
				len(now.(*workv1.ManifestWork).Status.Conditions) > 0 {
				<-ahead
			}
		},
	})
	patch := []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
		`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	for i := range benchAgents {
		cluster := fmt.Sprintf("cluster%d", i)
		agent, err := work.NewAgent(dial(), work.AgentOptions{
			ClusterName: cluster, Sources: []string{"hub"}, MetricsRegisterer: registerer,
		})
		if err != nil {
			b.Fatal(err)
		}
		benchStart(b, agent)
		works := agent.Clientset().WorkV1().ManifestWorks(cluster)
		benchInformer(b, agent.Clientset(), cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			name := obj.(*workv1.ManifestWork).Name
			if _, err := works.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{},
				"status"); err != nil {
				b.Error(err)
			}
		}})
	}
	value := strings.Repeat("v", 900) // about 1 KiB with its ConfigMap
	publishers(b, ahead, func(i int) error {
		_, err := source.Clientset().WorkV1().ManifestWorks(fmt.Sprintf("cluster%d", i%benchAgents)).
			Create(context.Background(), newWork(fmt.Sprintf("work-%d", i), value), metav1.CreateOptions{})
		return err
	})
}
