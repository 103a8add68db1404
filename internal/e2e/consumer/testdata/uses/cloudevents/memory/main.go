// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use sends one event over the bus.
//
// Prints: received 1
package main

import (
	"context"
	"fmt"
	"log"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
)

func main() {
	received := make(chan string, 1)
	conn, err := memory.New().Transport().Connect(context.Background(), cloudevents.ConnectOptions{
		Filters: []string{"/sources/+/clusters/cluster1/manifests"},
		Receive: func(m cloudevents.Message) { received <- m.Event.ID() },
		Refuse:  func(topic string, err error) { log.Fatal(topic, err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	e := ce.New()
	e.SetID("1")
	e.SetType("example")
	e.SetSource("hub")
	message := cloudevents.Message{Topic: "/sources/hub/clusters/cluster1/manifests", Event: &e}
	if err := conn.Publish(context.Background(), message, func(error) {}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("received", <-received)
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
}
