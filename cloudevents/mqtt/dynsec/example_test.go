// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynsec_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/mqtt/dynsec"
)

// The changes of a join server go to the broker. Here no broker runs.
func ExampleNew() {
	broker, err := dynsec.New(dynsec.Options{
		Broker: mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1", ConnectTimeout: time.Second}, SourceID: "hub",
	})
	if err != nil {
		log.Fatal(err)
	}
	o := join.ServerOptions{Apply: broker.Apply}
	err = o.Apply(context.Background(), []join.Change{{Cluster: "cluster1", Subject: "CN=cluster1,OU=join-1"}})
	fmt.Println("applied:", err == nil)
	// Output:
	// applied: false
}
