// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// startBroker runs a broker in this process, on a free port.
func startBroker() (url string, stop func()) { return startBrokerWith(embeddedOptions{}) }

func startBrokerWith(o embeddedOptions) (url string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server, err := newEmbedded(listener, o)
	if err != nil {
		panic(err)
	}
	return "mqtt://" + listener.Addr().String(), func() {
		awaitNoClients(server)
		_ = server.Close()
	}
}

// Sources and agents connect with the transport. This program publishes and receives messages
// directly.
func Example() {
	ctx := context.Background()
	url, stop := startBroker()
	defer stop()

	transport, err := mqtt.New(mqtt.Options{BrokerURL: url, ClientID: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	received := make(chan cloudevents.Message)
	conn, err := transport.Connect(ctx, cloudevents.ConnectOptions{
		Filters: []string{"/sources/+/clusters/cluster1/manifests"},
		Receive: func(m cloudevents.Message) { received <- m },
		Refuse:  func(topic string, err error) { fmt.Println("refused:", topic, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	e := ce.New()
	e.SetID("1")
	e.SetType("io.open-cluster-management.v1.manifestwork.spec.created")
	e.SetSource("hub")
	if err := e.SetData("application/json", map[string]any{"manifests": []any{}}); err != nil {
		fmt.Println(err)
		return
	}
	acknowledged := make(chan error, 1)
	message := cloudevents.Message{Topic: "/sources/hub/clusters/cluster1/manifests", Event: &e}
	if err := conn.Publish(ctx, message, func(err error) { acknowledged <- err }); err != nil {
		fmt.Println(err)
		return
	}

	m := <-received
	fmt.Println("topic:", m.Topic)
	fmt.Println("data:", string(m.Event.Data()))
	fmt.Println("acknowledged:", <-acknowledged == nil)
	// Output:
	// topic: /sources/hub/clusters/cluster1/manifests
	// data: {"manifests":[]}
	// acknowledged: true
}

// Options do not print or log the password.
func ExampleLoadOptions() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "mqtt.yaml")
	content := `
brokerURL: mqtts://broker.example.com
username: cluster1
password: "do not tell"
keepAlive: 45s
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	options, err := mqtt.LoadOptions(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(options.BrokerURL, options.Username, options.KeepAlive)
	options = mqtt.Options{BrokerURL: options.BrokerURL, Password: options.Password}
	fmt.Println(options)
	// Output:
	// mqtts://broker.example.com cluster1 45s
	// {mqtts://broker.example.com  false  [redacted]  <nil>    0s 0s 0s 0 map[]}
}

// The error contains the reason why a broker refuses a client.
func ExampleReasonError() {
	url, stop := startBrokerWith(embeddedOptions{users: map[string]string{"cluster1": "right"}})
	defer stop()

	transport, err := mqtt.New(mqtt.Options{BrokerURL: url, Username: "cluster1", Password: "wrong"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = transport.Connect(context.Background(), cloudevents.ConnectOptions{})
	var reason *mqtt.ReasonError
	if errors.As(err, &reason) {
		fmt.Println(reason)
	}
	var permanent *cloudevents.PermanentError
	fmt.Println("tried again every ten seconds only:", errors.As(err, &permanent))
	// Output:
	// bad user name or password (CONNACK 0x86), in the broker's words: "bad username or password": check Username and the password
	// tried again every ten seconds only: true
}

// New checks the options but does not connect: the broker may be unavailable.
func ExampleNew() {
	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtts://broker.example.com", Username: "cluster1",
		Password: "do not tell"})
	fmt.Println(transport, err)
	_, err = mqtt.New(mqtt.Options{BrokerURL: "https://broker.example.com"})
	fmt.Println(err)
	// Output:
	// MQTT transport to mqtts://broker.example.com:8883 <nil>
	// MQTT options: BrokerURL "https://broker.example.com" has the scheme "https", which is not supported: write mqtt://host:port, mqtts://host:port, ws://host:port/path or wss://host:port/path
}
