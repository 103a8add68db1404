// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes a transport for a broker that is away.
//
// Prints: no broker: true
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

func main() {
	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1", ConnectTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	_, err = transport.Connect(context.Background(), cloudevents.ConnectOptions{
		Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	fmt.Println("no broker:", err != nil)
}
