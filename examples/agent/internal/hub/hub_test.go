// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/agent/internal/hub"
)

func TestOverBroker(t *testing.T) {
	store := filepath.Join(t.TempDir(), "works.db")
	b := hub.Broker{MQTT: mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1"}, ClusterName: "cluster1", Store: store}
	h, err := hub.OverBroker(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(); err == nil {
		t.Error("it is ready without a broker")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Start(ctx); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	again, err := hub.OverBroker(b, nil) // the store is not in use any more
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(damaged, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	good := mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1"}
	for _, tt := range []struct {
		name   string
		broker hub.Broker
		want   string
	}{
		{"no URL", hub.Broker{ClusterName: "c", MQTT: mqtt.Options{BrokerURL: "tcp://b"}}, "--broker: "},
		{"no cluster", hub.Broker{MQTT: good}, "ClusterName"},
		{"a source that is no level of a topic", hub.Broker{MQTT: good, ClusterName: "c", Sources: []string{"a/b"}},
			"Sources[0]"},
		{"a store without a folder",
			hub.Broker{MQTT: good, ClusterName: "c", Store: filepath.Join(t.TempDir(), "missing", "works.db")}, "--store: "},
		{"a damaged store", hub.Broker{MQTT: good, ClusterName: "c", Store: damaged}, "remove the file"},
	} {
		if _, err := hub.OverBroker(tt.broker, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := hub.OnAPIServer(filepath.Join(t.TempDir(), "missing")); err == nil ||
		!strings.Contains(err.Error(), "--hub-kubeconfig: ") {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
}

// TestAddress checks that equivalent addresses result in the same text, without the password.
func TestAddress(t *testing.T) {
	for raw, want := range map[string]string{
		"https://Hub.example:6443/":        "https://hub.example:6443",
		"https://hub.example/k8s/cluster1": "https://hub.example/k8s/cluster1",
		"mqtts://user:secret@broker:8884":  "mqtts://broker:8884",
		"mqtts://broker:8883":              "mqtts://broker", // the default port
		"mqtt://[::1]:1883":                "mqtt://[::1]",
		"mqtt://[fd00::1883]":              "mqtt://[fd00::1883]",
		"https://hub:443":                  "https://hub",
		"https://hub:1883":                 "https://hub:1883",
		"somewhere":                        "somewhere",
	} {
		if got := hub.Address(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
