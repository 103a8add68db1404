// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub connects the agent to a hub: over a broker, or to an API server. Both have the same
// clientset, and the rest of the agent does not depend on the transport.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// Hub is a connection to a hub.
type Hub struct {
	// Works is the clientset for the works of the cluster.
	Works workclientset.Interface
	// Address is the address of the broker or the API server, without credentials. It identifies
	// the hub.
	Address string

	// Start keeps the connection until ctx ends. It may be called once.
	Start func(ctx context.Context) error
	// Ready returns an error while works and statuses cannot be exchanged.
	Ready func() error
	// Close closes the store. Call it after Start has returned.
	Close func() error
}

// Broker configures the connection to sources over a broker.
type Broker struct {
	MQTT mqtt.Options
	// ClusterName is the name of the served cluster.
	ClusterName string
	// Sources are the sources to serve; none means all.
	Sources []string
	// Store is a file that keeps the works across restarts; "" means none.
	Store string
}

// OverBroker returns a Hub behind a broker. It connects in Start.
func OverBroker(b Broker, metrics prometheus.Registerer) (*Hub, error) {
	transport, err := mqtt.New(b.MQTT)
	if err != nil {
		return nil, fmt.Errorf("--broker: %w", err)
	}
	options := work.AgentOptions{ClusterName: b.ClusterName, Sources: b.Sources, MetricsRegisterer: metrics}
	closeStore := func() error { return nil }
	if b.Store != "" {
		store, err := boltstore.Open(b.Store, boltstore.Options{})
		if errors.Is(err, boltstore.ErrDamaged) {
			return nil, fmt.Errorf("--store: %w: remove the file; the agent then requests the works again", err)
		}
		if err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
		options.Store, closeStore = store, store.Close
	}
	agent, err := work.NewAgent(transport, options)
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	return &Hub{
		Works: agent.Clientset(), Address: Address(b.MQTT.BrokerURL), Start: agent.Start, Close: closeStore,
		Ready: func() error { return agent.Readyz(nil) },
	}, nil
}

// OnAPIServer returns the Hub of a kubeconfig.
func OnAPIServer(file string) (*Hub, error) {
	config, err := command.LoadKubeconfig("--hub-kubeconfig", file)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server's own priority and fairness limits it
	client, err := workclientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Hub{
		Works: client, Address: Address(config.Host), Close: func() error { return nil },
		Start: func(ctx context.Context) error { <-ctx.Done(); return nil },
		Ready: func() error { return nil }, // Controller.Synced covers it
	}, nil
}

// Address returns the part of a URL that identifies a broker or an API server: without credentials,
// query and default port.
func Address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	host := strings.ToLower(u.Host)
	if port := defaultPorts[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return strings.TrimSuffix((&url.URL{Scheme: u.Scheme, Host: host, Path: u.Path}).String(), "/")
}

// defaultPorts are the ports that a URL may omit.
var defaultPorts = map[string]string{
	"http": "80", "https": "443", "mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443",
}
