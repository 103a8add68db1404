// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"net"
	"os"
	"runtime"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// patience is the time limit for each wait of a test.
const patience = time.Minute

// connect opens a connection without subscriptions.
func connect(t testing.TB, o mqtt.Options) cloudevents.Conn {
	t.Helper()
	return connectWith(t, o, nil)
}

// connectWith opens a connection that is closed at the end of the test.
func connectWith(
	t testing.TB, o mqtt.Options, received chan<- cloudevents.Message, filters ...string,
) cloudevents.Conn {
	t.Helper()
	transport := newTransport(t, o)
	if err := transport.Claim("test"); err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(t.Context(), connectOptions(t, func(m cloudevents.Message) { received <- m },
		filters...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func connectOptions(t testing.TB, receive func(cloudevents.Message), filters ...string) cloudevents.ConnectOptions {
	return cloudevents.ConnectOptions{
		Filters: filters,
		Receive: receive,
		Refuse:  func(topic string, err error) { t.Errorf("refused on topic %q: %v", topic, err) },
	}
}

// publish publishes an event and waits for its acknowledgement.
func publish(t testing.TB, conn cloudevents.Conn, topic string, e *ce.Event) {
	t.Helper()
	if err := publishResult(t, conn, topic, e); err != nil {
		t.Fatalf("the message on %q was not acknowledged: %v", topic, err)
	}
}

// publishResult publishes an event and returns the argument of done.
func publishResult(t testing.TB, conn cloudevents.Conn, topic string, e *ce.Event) error {
	t.Helper()
	result := make(chan error, 1)
	if err := conn.Publish(t.Context(), cloudevents.Message{Topic: topic, Event: e},
		func(err error) { result <- err }); err != nil {
		t.Fatalf("Publish on %q: %v", topic, err)
	}
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		t.Fatalf("Publish on %q: done was not called in %v", topic, patience)
		return nil
	}
}

// ended waits for the end of a connection and returns the reason.
func ended(t testing.TB, conn cloudevents.Conn) error {
	t.Helper()
	select {
	case <-conn.Done():
		return conn.Err()
	case <-time.After(patience):
		t.Fatalf("the connection did not end in %v", patience)
		return nil
	}
}

// wantError fails the test unless err contains all parts, or if err contains the password of the
// tests.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want one with %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error contains the password: %v", err)
	}
}

// subscribeRaw returns the messages on a topic as paho receives them.
func subscribeRaw(t *testing.T, addr, filter string) <-chan *paho.Publish {
	t.Helper()
	received := make(chan *paho.Publish, 100)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			received <- r.Packet
			return true, nil
		}},
	})
	if _, err := client.Connect(t.Context(), &paho.Connect{ClientID: uuid.NewString(), CleanStart: true,
		KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	if _, err := client.Subscribe(t.Context(),
		&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	return received
}

func sampleEvent() *ce.Event {
	e := ce.New()
	e.SetID("1")
	e.SetSource("hub")
	e.SetType("io.spokewire.test")
	e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	e.SetExtension("resourceversion", "9007199254740993")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(`{"a":1}`)
	return &e
}

// waitFor polls a condition that cannot be waited for otherwise.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
