// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// elements returns a list of 14 MiB.
func elements(element string) string {
	return "[" + strings.Repeat(element+",", 14<<20/(len(element)+1)) + element + "]"
}

// crowded returns attacks that publish events of a message's kind with other data, each three
// times.
func crowded(t *testing.T, broker *mosquitto.Broker, message codec.Message, all map[string]string) (attacks []attack) {
	t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.Claim("evil-events"); err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(
		t.Context(),
		cloudevents.ConnectOptions{Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for name, data := range all {
		attacks = append(attacks, attack{name, func(t *testing.T) {
			topic, event, err := codec.ManifestWork.Encode(message)
			if err != nil {
				t.Error(err)
				return
			}
			event.DataEncoded = []byte(data)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			for range 3 {
				done := make(chan error, 1)
				if err := conn.Publish(ctx, cloudevents.Message{Topic: topic, Event: event},
					func(err error) { done <- err }); err != nil {
					t.Error(err)
					return
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			time.Sleep(500 * time.Millisecond) // the program reads them
		}})
	}
	return attacks
}

// specEvents returns attacks with the events of a hostile source.
func specEvents(t *testing.T, broker *mosquitto.Broker) []attack {
	message := &codec.Spec{
		Header: codec.Header{ID: "evil", Source: "evil", Cluster: "cluster1"},
		WorkRef: codec.WorkRef{
			ResourceID: codec.ResourceID("evil", "cluster1", "evil"),
			Name:       "evil",
			Version:    1,
		}, Work: &workv1.ManifestWork{},
	}
	return crowded(t, broker, message, map[string]string{
		"14 MiB of manifests":      `{"manifests":` + elements("{}") + "}",
		"14 MiB of configurations": `{"manifests":[{}],"manifestConfigs":` + elements("{}") + "}",
		"14 MiB of rules":          `{"manifests":[{}],"manifestConfigs":[{"feedbackRules":` + elements("{}") + "}]}",
		"14 MiB of owners":         `{"manifests":[{}],"metadata":{"ownerReferences":` + elements("{}") + "}}",
		"14 MiB of objects":        `{"manifests":[{"a":` + elements("{}") + "}]}",
	})
}

// agentEvents returns attacks with the events of a hostile agent.
func agentEvents(t *testing.T, broker *mosquitto.Broker) (attacks []attack) {
	header := codec.Header{ID: "evil", Source: "hub", Cluster: "c1", Agent: "c1-agent"}
	status := &codec.Status{
		Header: header, WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("hub", "c1", "evil"), Name: "evil", Version: 1},
		SequenceID: 1, Status: &workv1.ManifestWorkStatus{},
	}
	attacks = crowded(t, broker, status, map[string]string{
		"14 MiB of conditions": `{"conditions":` + elements("{}") + "}",
		"14 MiB of statuses":   `{"resourceStatus":{"manifestConditions":` + elements("{}") + "}}",
		"14 MiB of values": `{"resourceStatus":{"manifestConditions":[{"statusFeedback":{"values":` + elements(
			"{}",
		) + "}}]}}",
	})
	list := &codec.SpecResync{Header: header, Broadcast: true}
	return append(attacks, crowded(t, broker, list, map[string]string{
		"14 MiB of listed works":          `{"resourceVersions":` + elements("{}") + "}",
		"14 MiB of listed works with IDs": `{"resourceVersions":` + elements(`{"resourceID":"a"}`) + "}",
	})...)
}
