// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	benchData  = 1500 // bytes
	benchTopic = "/sources/hub/clusters/cluster1/manifests"
	// benchAhead limits the messages that are published but not yet received, so no queue
	// overflows.
	benchAhead = 512
	// benchWorkers is the number of goroutines that publish and wait for each acknowledgement.
	benchWorkers = 16
)

// BenchmarkPublish measures one message of 1,500 bytes that is published, acknowledged and
// received. "raw" is the lower bound: paho.Client with its own session, the same bytes, and no
// events.
func BenchmarkPublish(b *testing.B) {
	brokers := []struct {
		name  string
		start func(*testing.B) string
	}{
		{"Mosquitto", func(b *testing.B) string { return mosquitto.Start(b, mosquitto.Options{}).Addr() }},
		{"Embedded", func(b *testing.B) string { return startEmbedded(b, embeddedOptions{}).addr }},
	}
	for _, broker := range brokers {
		b.Run(broker.name, func(b *testing.B) {
			addr := broker.start(b)
			b.Run("raw/workers=16", func(b *testing.B) { benchRaw(b, addr) })
			b.Run("structured/workers=16", func(b *testing.B) { benchWorkersPublish(b, addr, false) })
			b.Run("binary/workers=16", func(b *testing.B) { benchWorkersPublish(b, addr, true) })
			b.Run("structured/pipelined", func(b *testing.B) { benchPipelined(b, addr, false) })
			b.Run("binary/pipelined", func(b *testing.B) { benchPipelined(b, addr, true) })
		})
	}
}

func benchRaw(b *testing.B, addr string) {
	ctx := b.Context()
	ahead := make(chan struct{}, benchAhead)
	dial := func(receive func()) *paho.Client {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		client := paho.NewClient(paho.ClientConfig{
			Conn: packets.NewThreadSafeConn(conn),
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(paho.PublishReceived) (bool, error) {
				receive()
				return true, nil
			}},
		})
		if _, err := client.Connect(ctx, &paho.Connect{ClientID: uuid.NewString(), CleanStart: true,
			KeepAlive: 30}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
		return client
	}
	subscriber := dial(func() { <-ahead })
	if _, err := subscriber.Subscribe(ctx,
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: benchTopic, QoS: 1}}}); err != nil {
		b.Fatal(err)
	}
	publisher := dial(func() {})
	payload := bytes.Repeat([]byte("x"), benchData)
	publish := func() error {
		_, err := publisher.Publish(ctx, &paho.Publish{QoS: 1, Topic: benchTopic, Payload: payload})
		return err
	}
	benchLoop(b, ahead, publish)
}

func benchConnect(
	b *testing.B, addr string, binary bool, receive func(cloudevents.Message), filters ...string,
) cloudevents.Conn {
	conn, err := newTransport(b, mqtt.Options{BrokerURL: "mqtt://" + addr}).Connect(b.Context(),
		cloudevents.ConnectOptions{
			Filters: filters,
			Binary:  binary,
			Receive: receive,
			Refuse:  func(_ string, err error) { b.Error(err) },
		})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

func benchEvent() *ce.Event {
	e := ce.New()
	e.SetID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	e.SetType("io.open-cluster-management.v1.manifestwork.spec.created")
	e.SetSource("hub")
	e.SetExtension("resourceid", "6ba7b812-9dad-11d1-80b4-00c04fd430c8")
	e.SetExtension("resourceversion", "12")
	e.SetExtension("clustername", "cluster1")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(strconv.Quote(string(bytes.Repeat([]byte("x"), benchData-2))))
	return &e
}

func benchWorkersPublish(b *testing.B, addr string, binary bool) {
	ahead := make(chan struct{}, benchAhead)
	benchConnect(b, addr, binary, func(cloudevents.Message) { <-ahead }, benchTopic)
	publisher := benchConnect(b, addr, binary, nil)
	e := benchEvent()
	benchLoop(b, ahead, func() error {
		result := make(chan error, 1)
		if err := publisher.Publish(b.Context(), cloudevents.Message{Topic: benchTopic, Event: e},
			func(err error) { result <- err }); err != nil {
			return err
		}
		return <-result
	})
}

// benchLoop runs publish in benchWorkers goroutines and waits until all messages were received.
func benchLoop(b *testing.B, ahead chan struct{}, publish func() error) {
	jobs := make(chan struct{})
	finished := make(chan error, benchWorkers)
	b.ReportAllocs()
	for range benchWorkers {
		go func() {
			var failed error
			for range jobs {
				if err := publish(); err != nil {
					failed = err
				}
			}
			finished <- failed
		}()
	}
	for b.Loop() {
		ahead <- struct{}{}
		jobs <- struct{}{}
	}
	close(jobs)
	for range benchWorkers {
		if err := <-finished; err != nil {
			b.Fatal(err)
		}
	}
	drain(ahead)
}

// drain waits until all messages were received: then all of ahead is free.
func drain(ahead chan struct{}) {
	for range benchAhead {
		ahead <- struct{}{}
	}
	for range benchAhead {
		<-ahead
	}
}

func benchPipelined(b *testing.B, addr string, binary bool) {
	ahead := make(chan struct{}, benchAhead)
	subscriber := benchConnect(b, addr, binary, func(cloudevents.Message) { <-ahead }, benchTopic)
	publisher := benchConnect(b, addr, binary, nil)
	e := benchEvent()
	var unacknowledged sync.WaitGroup
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
		unacknowledged.Done()
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		ahead <- struct{}{}
		unacknowledged.Add(1)
		if err := publisher.Publish(ctx, cloudevents.Message{Topic: benchTopic, Event: e}, done); err != nil {
			b.Fatal(err)
		}
	}
	drain(ahead)
	unacknowledged.Wait() // received messages may still be unacknowledged
	for _, conn := range []cloudevents.Conn{subscriber, publisher} {
		if err := conn.Err(); err != nil {
			b.Error(err)
		}
	}
}
