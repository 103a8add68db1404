// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

func TestOverBroker(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	store := filepath.Join(t.TempDir(), "works.db")
	b := options{Broker: mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1"}, Cluster: "cluster1", Store: store}
	h, err := connect(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.ready(); err == nil {
		t.Error("it is ready without a broker")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.start(ctx); err != nil {
		t.Error(err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
	again, err := connect(b, nil) // the store is not in use any more
	if err != nil {
		t.Fatal(err)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
}

func TestConnectRefuses(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(damaged, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	good := mqtt.Options{BrokerURL: "mqtt://127.0.0.1:1"}
	for _, tt := range []struct {
		name   string
		broker options
		want   string
	}{
		{"no URL", options{Cluster: "c", Broker: mqtt.Options{BrokerURL: "tcp://b"}}, `BrokerURL "tcp://b"`},
		{"no cluster", options{Broker: good}, "ClusterName"},
		{"a source that is no level of a topic", options{Broker: good, Cluster: "c", Sources: []string{"a/b"}},
			"Sources[0]"},
		{"a store without a folder",
			options{Broker: good, Cluster: "c", Store: filepath.Join(t.TempDir(), "missing", "works.db")}, "--store: "},
		{"a damaged store", options{Broker: good, Cluster: "c", Store: damaged}, "remove the file"},
	} {
		if _, err := connect(tt.broker, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := onAPIServer(filepath.Join(t.TempDir(), "missing")); err == nil ||
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
		if got := addressOf(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
