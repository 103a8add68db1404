// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use makes the first rights of a broker.
//
// Prints: rights: true
package main

import (
	"bytes"
	"fmt"
	"log"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
)

func main() {
	_, err := dynsec.New(dynsec.Options{Broker: mqtt.Options{BrokerURL: "mqtt://localhost"}, SourceID: "hub"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rights:", bytes.Contains(dynsec.Config("hub", "CN=hub"), []byte("/sources/hub/clusters/+/manifests")))
}
