// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package interop_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestInteropRestartedSourceShowsStatus: a source of this SDK restarts without a store. Its owner
// creates a work again only after the OCM agent has answered the source's first request. The agent
// has no new status to report, but the source shows the work's status within 90 s.
func TestInteropRestartedSourceShowsStatus(t *testing.T) {
	for _, m := range modes[:1] {
		t.Run(m.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{})
			answers := count(t, broker, "clusters/+/agentevents", func(*paho.Publish) bool { return true })
			source, stop := ourSource(t, broker, m)
			agent := theirAgent(t, broker, m)
			for _, work := range []string{name, "second"} {
				source.create(t, work, "1", "")
				agent.eventuallyValue(t, work, "1")
				agent.report(t, work, "of "+work)
				source.eventuallyReported(t, work, "of "+work)
			}
			stop()
			before := answers.Load()
			source, _ = ourSource(t, broker, m)
			eventually(t, "the agent answers the new source", func() error {
				return when(answers.Load() >= before+2, "it does not")
			})
			time.Sleep(2 * time.Second) // until the source has read the answers: no signal reports that
			began := time.Now()
			source.create(t, name, "1", "")
			source.create(t, "second", "changed", "")
			source.eventuallyReported(t, name, "of "+name)
			source.eventuallyReported(t, "second", "of second")
			t.Logf("the statuses came after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestInteropUnreportedWork: a source of this SDK restarts without a store, and creates a work with
// another spec. Meanwhile the link of an OCM agent is cut. This agent has the work and has reported
// nothing. The agent receives the new spec, and the source receives its confirmation.
func TestInteropUnreportedWork(t *testing.T) {
	for _, m := range modes[:1] {
		t.Run(m.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{})
			first, stop := ourSource(t, broker, m)
			agent := theirAgent(t, broker, m)
			first.create(t, name, "old", "")
			agent.eventuallyValue(t, name, "old")
			back := agent.away(t)
			stop()
			link := tcpproxy.Start(t, broker.Addr())
			source, err := work.NewSource(transport(t, link, m), work.SourceOptions{SourceID: sourceID, Profile: m.profile(t)})
			if err != nil {
				t.Fatal(err)
			}
			second, _ := run(t, source, link)
			second.create(t, name, "new", "")
			back()
			agent.eventuallyValue(t, name, "new")
			eventually(t, "the work is confirmed", func() error {
				clusters := source.Clusters()
				return when(len(clusters) == 1 && clusters[0].Unconfirmed == 0, fmt.Sprintf("%+v", clusters))
			})
		})
	}
}

// count counts the messages of a topic of the source that match.
func count(t *testing.T, broker *mosquitto.Broker, topic string, match func(*paho.Publish) bool) *atomic.Int64 {
	t.Helper()
	n := &atomic.Int64{}
	conn, err := net.Dial("tcp", broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(r paho.PublishReceived) (bool, error) {
			if match(r.Packet) {
				n.Add(1)
			}
			return true, nil
		},
	}})
	if _, err := client.Connect(t.Context(),
		&paho.Connect{ClientID: "count " + topic, CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	if _, err := client.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: "sources/" + sourceID + "/" + topic, QoS: 1},
	}}); err != nil {
		t.Fatal(err)
	}
	return n
}
