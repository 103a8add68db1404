// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
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
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/mosquitto"
)

const (
	benchAgents     = 4
	benchPublishers = 16
	benchAhead      = 512 // round trips under way
	rawOut, rawBack = 1500, 700
)

// BenchmarkRoundTrip: Create on the source, informer add on the agent, status patch, informer update on the
// source, for works of 1 KiB over Mosquitto. "rawmqtt" moves the same bytes with paho.Client and nothing else.
// "metrics" is "structured" with a registerer. Run it with -benchtime=10000x: each operation adds a work.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("rawmqtt", func(b *testing.B) { benchRawEcho(b, mosquitto.Start(b, mosquitto.Options{}).Addr()) })
	b.Run("structured", func(b *testing.B) {
		benchWorks(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, nil)
	})
	b.Run("metrics", func(b *testing.B) {
		benchWorks(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}, prometheus.NewRegistry())
	})
	b.Run("binary", func(b *testing.B) {
		benchWorks(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL(), Binary: true}, nil)
	})
}

// publishers runs begin(i) for each operation in benchPublishers goroutines, with at most benchAhead under way,
// and waits until all have ended.
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
	i := 0
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
}

func benchRawEcho(b *testing.B, addr string) {
	ahead := make(chan struct{}, benchAhead)
	dial := func(filter string, receive func(*paho.Publish)) *paho.Client {
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
		if _, err := client.Connect(b.Context(), &paho.Connect{ClientID: uuid.NewString(), CleanStart: true, KeepAlive: 30}); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Subscribe(b.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
		return client
	}
	ctx := context.Background()
	back := bytes.Repeat([]byte("y"), rawBack)
	for i := range benchAgents {
		received := make(chan struct{}, benchAhead)
		agent := dial(fmt.Sprintf("/out/%d", i), func(*paho.Publish) { received <- struct{}{} })
		for range benchPublishers / benchAgents {
			go func() {
				for range received {
					if _, err := agent.Publish(ctx, &paho.Publish{QoS: 1, Topic: "/back", Payload: back}); err != nil {
						b.Error(err)
					}
				}
			}()
		}
		b.Cleanup(func() { close(received) })
	}
	hub := dial("/back", func(*paho.Publish) { <-ahead })
	out := bytes.Repeat([]byte("x"), rawOut)
	publishers(b, ahead, func(i int) error {
		_, err := hub.Publish(ctx, &paho.Publish{QoS: 1, Topic: fmt.Sprintf("/out/%d", i%benchAgents), Payload: out})
		return err
	})
}

func benchTransport(b *testing.B, options mqtt.Options) *mqtt.Transport {
	transport, err := mqtt.New(options)
	if err != nil {
		b.Fatal(err)
	}
	return transport
}

func benchStart(b *testing.B, p interface {
	Start(context.Context) error
	Ready() <-chan struct{}
}) {
	ctx, cancel := context.WithCancel(context.Background())
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

func benchInformer(b *testing.B, c workclientset.Interface, handler cache.ResourceEventHandlerFuncs) {
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

func benchWorks(b *testing.B, options mqtt.Options, registerer prometheus.Registerer) {
	ahead := make(chan struct{}, benchAhead)
	source, err := work.NewSource(benchTransport(b, options), work.SourceOptions{SourceID: "hub", MetricsRegisterer: registerer})
	if err != nil {
		b.Fatal(err)
	}
	benchStart(b, source)
	benchInformer(b, source.Clientset(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) {
			if len(before.(*workv1.ManifestWork).Status.Conditions) == 0 && len(now.(*workv1.ManifestWork).Status.Conditions) > 0 {
				<-ahead
			}
		},
	})
	patch := []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
		`{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	for i := range benchAgents {
		cluster := fmt.Sprintf("cluster%d", i)
		agent, err := work.NewAgent(benchTransport(b, options), work.AgentOptions{
			ClusterName: cluster, Sources: []string{"hub"}, MetricsRegisterer: registerer,
		})
		if err != nil {
			b.Fatal(err)
		}
		benchStart(b, agent)
		works := agent.Clientset().WorkV1().ManifestWorks(cluster)
		benchInformer(b, agent.Clientset(), cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			name := obj.(*workv1.ManifestWork).Name
			if _, err := works.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				b.Error(err)
			}
		}})
	}
	value := strings.Repeat("v", 900) // with its ConfigMap about 1 KiB
	publishers(b, ahead, func(i int) error {
		_, err := source.Clientset().WorkV1().ManifestWorks(fmt.Sprintf("cluster%d", i%benchAgents)).
			Create(context.Background(), newWork(fmt.Sprintf("work-%d", i), value), metav1.CreateOptions{})
		return err
	})
}
