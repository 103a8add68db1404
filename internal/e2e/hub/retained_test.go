// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// nothingRetained checks all topics that a hub and the clusters may read: the broker has no
// retained message.
func (s *site) nothingRetained(t *testing.T) {
	t.Helper()
	s.retained(t, "hub", "/sources/hub/clusters/+/manifestsstatus", "/sources/hub/clusters/+/specresync",
		"/sources/resync/+/manifests")
	for _, p := range s.spokes {
		topic := "/sources/hub/clusters/" + p.name
		s.retained(t, p.name, topic+"/manifests", topic+"/statusresync", "/sources/hub/resync/clusters/manifestsstatus")
	}
}

func (s *site) retained(t *testing.T, user string, topics ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: s.ca.Pool(), ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{s.ca.Issue(t, user).Certificate},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", s.broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The client writes a packet in several parts, and acknowledges messages while it subscribes.
	client := paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn),
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(m paho.PublishReceived) (bool, error) {
				if m.Packet.Retain {
					t.Errorf("%s has a message that is retained", m.Packet.Topic)
				}
				return true, nil
			},
		}})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: "look-" + user, CleanStart: true,
		KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(&paho.Disconnect{}) }()
	for _, topic := range topics {
		if _, err := client.Subscribe(ctx,
			&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}}); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		// Retained messages arrive before the response to this request.
		if _, err := client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{topic}}); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
	}
}
