// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	mqttbinding "github.com/cloudevents/sdk-go/protocol/mqtt_paho/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// TestWireFormat checks the form in which other clients receive the messages of the transport.
func TestWireFormat(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{})
	received := subscribeRaw(t, broker.addr, "#")
	for _, mode := range modes {
		conn := connect(t, mqtt.Options{BrokerURL: broker.url(), Binary: mode.binary})
		publish(t, conn, "topic", sampleEvent())
		p := <-received
		var got map[string]string
		contentType, payload := "application/cloudevents+json",
			`{"specversion":"1.0","id":"1","source":"hub","type":"io.spokewire.test",`+
				`"time":"2026-01-02T03:04:05Z","datacontenttype":"application/json","resourceversion":"9007199254740993","data":{"a":1}}`
		var want map[string]string
		if mode.binary {
			contentType, payload = "application/json", `{"a":1}`
			got, want = map[string]string{}, map[string]string{
				"ce-specversion": "1.0", "ce-id": "1", "ce-source": "hub", "ce-type": "io.spokewire.test",
				"ce-time": "2026-01-02T03:04:05Z", "ce-resourceversion": "9007199254740993",
			}
			for _, u := range p.Properties.User {
				got[u.Key] = u.Value
			}
		}
		if p.QoS != 1 || p.Retain || p.Topic != "topic" || p.Properties.ContentType != contentType ||
			string(p.Payload) != payload {
			t.Errorf("%s: got %v", mode.name, p)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: user properties (-want +got):\n%s", mode.name, diff)
		}
		e, err := binding.ToEvent(context.Background(), mqttbinding.NewMessage(p))
		if err != nil {
			t.Fatalf("%s: the binding of cloudevents/sdk-go cannot read it: %v", mode.name, err)
		}
		if e.ID() != "1" || e.Extensions()["resourceversion"] != "9007199254740993" ||
			!bytes.Equal(e.Data(), []byte(`{"a":1}`)) {
			t.Errorf("%s: the binding of cloudevents/sdk-go reads %v", mode.name, e)
		}
	}
}

// TestReadEventsOfOtherClients checks that the transport reads messages from cloudevents/sdk-go,
// from a strict sender of the MQTT binding, and from an MQTT 3.1.1 client.
func TestReadEventsOfOtherClients(t *testing.T) {
	user := func(pairs ...string) *paho.PublishProperties {
		p := &paho.PublishProperties{ContentType: "application/json"}
		for i := 0; i < len(pairs); i += 2 {
			p.User.Add(pairs[i], pairs[i+1])
		}
		return p
	}
	structured, err := json.Marshal(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	table := []struct {
		name    string
		message *paho.Publish
	}{
		{"prefixed", &paho.Publish{Payload: []byte(`{"a":1}`),
			Properties: user("ce-specversion", "1.0", "ce-id", "1", "ce-source", "hub",
				"ce-type", "io.spokewire.test", "ce-time", "2026-01-02T03:04:05Z", "ce-resourceversion", "9007199254740993", "id",
				"not an attribute")}},
		{"without prefix", &paho.Publish{Payload: []byte(`{"a":1}`),
			Properties: user("specversion", "1.0", "id", "1", "source", "hub",
				"type", "io.spokewire.test", "time", "2026-01-02T03:04:05Z", "resourceversion", "9007199254740993", "User-Agent",
				"x")}},
		{"structured", &paho.Publish{Payload: structured,
			Properties: &paho.PublishProperties{ContentType: "application/cloudevents+json; charset=utf-8"}}},
		{"structured without content type", &paho.Publish{Payload: structured}},
	}
	binary := &paho.Publish{}
	if err := mqttbinding.WritePubMessage(context.Background(), binding.ToMessage(sampleEvent()), binary); err != nil {
		t.Fatal(err)
	}
	table = append(table, struct {
		name    string
		message *paho.Publish
	}{"binding", binary})

	broker := startEmbedded(t, embeddedOptions{})
	got := make(chan cloudevents.Message, 1)
	connectWith(t, mqtt.Options{BrokerURL: broker.url()}, got, "#")
	want, err := json.Marshal(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table {
		row.message.QoS, row.message.Topic = 1, "topic"
		publishRaw(t, broker.addr, row.message)
		encoded, err := json.Marshal((<-got).Event)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(encoded)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// TestPublishRejectsInvalidMessages checks that Publish rejects messages for which the broker would
// end the connection, and that the connection stays open.
func TestPublishRejectsInvalidMessages(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{})
	conn := connect(t, mqtt.Options{BrokerURL: broker.url(), Binary: true})
	extension := func(value string) *ce.Event {
		e := sampleEvent()
		e.Context.(*ce.EventContextV1).Extensions["x"] = value
		return e
	}
	table := []struct {
		name     string
		message  cloudevents.Message
		tooLarge bool
	}{
		{"empty topic", cloudevents.Message{Event: sampleEvent()}, false},
		{"wildcard", cloudevents.Message{Topic: "a/+", Event: sampleEvent()}, false},
		{"control character in topic", cloudevents.Message{Topic: "a\x00", Event: sampleEvent()}, false},
		{"no event", cloudevents.Message{Topic: "t"}, false},
		{"invalid event", cloudevents.Message{Topic: "t", Event: &ce.Event{}}, false},
		{"control character in attribute", cloudevents.Message{Topic: "t", Event: extension("a\nb")}, false},
		{"attribute that is not UTF-8", cloudevents.Message{Topic: "t", Event: extension("\xff")}, false},
		{"long attribute", cloudevents.Message{Topic: "t", Event: extension(strings.Repeat("x", 65536))}, true},
	}
	for _, row := range table {
		err := conn.Publish(t.Context(), row.message, func(error) { t.Errorf("%s: done was called", row.name) })
		var tooLarge *cloudevents.TooLargeError
		if err == nil || errors.As(err, &tooLarge) != row.tooLarge {
			t.Errorf("%s: Publish returned %v", row.name, err)
		}
	}
	publish(t, conn, "t", sampleEvent())
}

// FuzzDecode checks that Decode returns an event or an error for arbitrary input.
func FuzzDecode(f *testing.F) {
	f.Add("application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{}}`), "",
		"", "", "")
	f.Add("", []byte(`{"specversion":"1.0"}`), "ce-id", "1", "ce-", "")
	f.Add("application/json", []byte(`{}`), "ce-specversion", "1.0", "ce-id", "1")
	f.Add("text/plain", []byte("\xff"), "specversion", "1.0", "time", "yesterday")
	f.Add(" ", []byte("0"), "speCversion", "1.0", "id", "0")
	f.Fuzz(func(t *testing.T, contentType string, payload []byte, key1, value1, key2, value2 string) {
		e, err := mqtt.Decode(&packets.Publish{Topic: "t", Payload: payload, Properties: &packets.Properties{
			ContentType: contentType,
			User: []packets.User{{Key: key1, Value: value1}, {Key: key2, Value: value2},
				{Key: "ce-source", Value: "s"}, {Key: "ce-type", Value: "t"}},
		}})
		if (err == nil) == (e == nil) {
			t.Fatalf("decode returned %v and %v", e, err)
		}
		if err == nil && (e.ID() == "" || e.Source() == "" || e.Type() == "" || e.SpecVersion() != "1.0") {
			t.Fatalf("decode accepted an event that lacks an attribute: %v", e)
		}
	})
}
