// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"fmt"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
)

// One connection subscribes and another publishes. Both transports belong to one bus.
func Example() {
	ctx := context.Background()
	bus := memory.New()

	received := make(chan cloudevents.Message)
	agent, err := bus.Transport().Connect(ctx, cloudevents.ConnectOptions{
		Filters: []string{"/sources/+/clusters/cluster1/manifests"},
		Receive: func(m cloudevents.Message) { received <- m },
		Refuse:  func(topic string, err error) { fmt.Println("refused:", topic, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()

	source, err := bus.Transport().Connect(ctx, cloudevents.ConnectOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()

	e := ce.New()
	e.SetID("1")
	e.SetType("io.open-cluster-management.v1.manifestwork.spec.created")
	e.SetSource("hub")
	message := cloudevents.Message{Topic: "/sources/hub/clusters/cluster1/manifests", Event: &e}
	acknowledged := make(chan error, 1)
	if err := source.Publish(ctx, message, func(err error) { acknowledged <- err }); err != nil {
		fmt.Println(err)
		return
	}

	m := <-received
	fmt.Println(m.Event.Type(), "on", m.Topic)
	fmt.Println("acknowledged:", <-acknowledged == nil)
	// Output:
	// io.open-cluster-management.v1.manifestwork.spec.created on /sources/hub/clusters/cluster1/manifests
	// acknowledged: true
}

// A test loses every second message on purpose.
func ExampleBus_Intercept() {
	ctx := context.Background()
	bus := memory.New()
	count := 0
	bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if count++; count%2 == 1 {
			deliver(m)
		}
	})

	received := make(chan string, 4)
	conn, err := bus.Transport().Connect(ctx, cloudevents.ConnectOptions{
		Filters: []string{"topic"},
		Receive: func(m cloudevents.Message) { received <- m.Event.ID() },
		Refuse:  func(string, error) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for _, id := range []string{"1", "2", "3"} {
		e := ce.New()
		e.SetID(id)
		e.SetType("example")
		e.SetSource("example")
		if err := conn.Publish(ctx, cloudevents.Message{Topic: "topic", Event: &e}, func(error) {}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(<-received, <-received)
	// Output: 1 3
}

// Each source and each agent needs its own transport. A second claim of a transport fails.
func ExampleNew() {
	bus := memory.New()
	transport := bus.Transport()
	fmt.Println(transport.Claim("source hub"))
	fmt.Println(transport.Claim("agent cluster1"))
	fmt.Println(bus.Transport().Claim("agent cluster1"))
	// Output:
	// <nil>
	// the transport already serves a source or an agent: make one transport for each
	// <nil>
}
