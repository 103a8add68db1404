// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	costClusters  = 4
	costCreators  = 16
	costUnderWay  = 512
	costOut       = 1850 // bytes of a spec event, with its attributes
	costBack      = 1400 // bytes of a status event
	costReclaimed = 3 * time.Second
)

// BenchmarkController measures the cost of a controller of works: 16 creators, 4 clusters, and one
// work controller in each cluster. A work controller copies the work of its informer, sets
// conditions of the work and its manifest, and patches the status. "floor" builds the same works
// and patches, and sends the same number of bytes with paho.Client. The difference of B/op is the
// SDK's. Run it with -benchtime=10000x. heap-B/work is the live heap of source, agents and all
// informers.
func BenchmarkController(b *testing.B) {
	b.Run("floor", benchFloor)
	b.Run("works", benchWorks)
}

// creators runs begin(i) for each operation in some goroutines, with a limited number in progress.
func creators(b *testing.B, underWay chan struct{}, begin func(i int) error) {
	jobs := make(chan int)
	var group sync.WaitGroup
	for range costCreators {
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
		underWay <- struct{}{}
		jobs <- i
		i++
	}
	close(jobs)
	group.Wait()
	for range costUnderWay {
		underWay <- struct{}{}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trips/s")
}

// costWork returns a work as a controller builds it, from typed values.
func costWork(i int) *workv1.ManifestWork {
	w := newWork(fmt.Sprintf("work-%d", i), strings.Repeat("v", 900))
	w.Namespace = fmt.Sprintf("cluster%d", i%costClusters)
	w.Labels = map[string]string{"app.kubernetes.io/managed-by": "controller", "example.com/wave": "1"}
	w.Annotations = map[string]string{"example.com/revision": fmt.Sprint(i)}
	return w
}

// statusPatch returns the patch that a work controller sends: the difference between the current
// and the desired status.
func statusPatch(w *workv1.ManifestWork) ([]byte, error) {
	next := w.DeepCopy()
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	next.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete",
			Message: "Apply manifest work complete", ObservedGeneration: w.Generation, LastTransitionTime: now},
		{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, Reason: "ResourcesAvailable",
			Message: "All resources are available", ObservedGeneration: w.Generation, LastTransitionTime: now},
	}
	next.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Name: w.Name,
			Namespace: "default"},
		Conditions: []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue,
			Reason: "AppliedManifestComplete", Message: "Apply manifest complete", LastTransitionTime: now}},
	}}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.UID, "resourceVersion": w.ResourceVersion},
		"status":   next.Status,
	})
}

func benchWorks(b *testing.B) {
	options := mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()}
	underWay := make(chan struct{}, costUnderWay)
	source, err := work.NewSource(newWire(b, options), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		b.Fatal(err)
	}
	start(b, source)
	if err := source.InventoryComplete(b.Context()); err != nil {
		b.Fatal(err)
	}
	informer(b, source.Clientset(), cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		if !applied(before.(*workv1.ManifestWork)) && applied(now.(*workv1.ManifestWork)) {
			<-underWay
		}
	}})
	var agents []*work.Agent
	for i := range costClusters {
		agent, err := work.NewAgent(newWire(b, options), work.AgentOptions{ClusterName: fmt.Sprintf("cluster%d", i),
			Sources: []string{"hub"}})
		if err != nil {
			b.Fatal(err)
		}
		agents = append(agents, agent)
		start(b, agent)
		works := agent.Clientset().WorkV1().ManifestWorks(fmt.Sprintf("cluster%d", i))
		informer(b, agent.Clientset(), cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			patch, err := statusPatch(obj.(*workv1.ManifestWork))
			if err == nil {
				_, err = works.Patch(context.Background(), obj.(*workv1.ManifestWork).Name, types.MergePatchType, patch,
					metav1.PatchOptions{}, "status")
			}
			if err != nil {
				b.Error(err)
			}
		}})
	}
	before := liveHeap()
	creators(b, underWay, func(i int) error {
		w := costWork(i)
		_, err := source.Clientset().WorkV1().ManifestWorks(w.Namespace).Create(context.Background(), w,
			metav1.CreateOptions{})
		return err
	})
	time.Sleep(costReclaimed) // until the last events are acknowledged
	b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "heap-B/work")
	runtime.KeepAlive(source)
	runtime.KeepAlive(agents)
}

func benchFloor(b *testing.B) {
	addr := mosquitto.Start(b, mosquitto.Options{}).Addr()
	underWay := make(chan struct{}, costUnderWay)
	for i := range costClusters {
		received := make(chan uint64, costUnderWay)
		agent := dialFloor(b, addr, fmt.Sprintf("/out/%d", i),
			func(p *paho.Publish) { received <- binary.BigEndian.Uint64(p.Payload) })
		var echoing sync.WaitGroup
		for range costCreators / costClusters {
			echoing.Go(func() {
				back := bytes.Repeat([]byte("y"), costBack)
				w := costWork(i)
				for n := range received {
					if _, err := statusPatch(w); err != nil {
						b.Error(err)
					}
					binary.BigEndian.PutUint64(back, n)
					if _, err := agent.Publish(context.Background(),
						&paho.Publish{QoS: 1, Topic: "/back", Payload: back}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		b.Cleanup(func() {
			close(received)
			echoing.Wait()
		})
	}
	hub := dialFloor(b, addr, "/back", func(*paho.Publish) { <-underWay })
	payloads := sync.Pool{New: func() any { return new([costOut]byte) }}
	creators(b, underWay, func(i int) error {
		w := costWork(i)
		out := payloads.Get().(*[costOut]byte)
		defer payloads.Put(out)
		binary.BigEndian.PutUint64(out[:], uint64(i))
		_, err := hub.Publish(context.Background(), &paho.Publish{QoS: 1, Topic: fmt.Sprintf("/out/%d", i%costClusters),
			Payload: out[:]})
		runtime.KeepAlive(w)
		return err
	})
}

func dialFloor(b *testing.B, addr, filter string, receive func(*paho.Publish)) *paho.Client {
	b.Helper()
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
	if _, err := client.Connect(b.Context(), &paho.Connect{CleanStart: true, KeepAlive: 30}); err != nil {
		b.Fatal(err)
	}
	if _, err := client.Subscribe(b.Context(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	return client
}
