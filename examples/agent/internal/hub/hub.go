// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub is where works come from and statuses go: a broker, or the API server of a hub. Behind it is the same
// clientset, and the rest of the agent does not know which.
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
	"github.com/spokewire/sdk-go/examples/internal/kubeconfig"
)

// Hub is a connection to one.
type Hub struct {
	// Works has the works of the cluster.
	Works workclientset.Interface
	// Address is that of the broker or the API server, without credentials: it tells hubs apart.
	Address string

	start func(context.Context) error
	ready func() error
	close func() error
}

// Broker says how to reach sources over a broker.
type Broker struct {
	MQTT mqtt.Options
	// ClusterName is the cluster that is served.
	ClusterName string
	// Sources are the hubs to serve; none means all.
	Sources []string
	// Store is a file that keeps the works over a restart; "" means none.
	Store string
}

// OverBroker returns a Hub behind a broker. It connects when it is started.
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
			return nil, fmt.Errorf("--store: %w: remove the file, and the works are asked for anew", err)
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
		Works: agent.Clientset(), Address: Address(b.MQTT.BrokerURL), start: agent.Start, close: closeStore,
		ready: func() error { return agent.Readyz(nil) },
	}, nil
}

// OnAPIServer returns the Hub of a kubeconfig.
func OnAPIServer(file string) (*Hub, error) {
	config, err := kubeconfig.Load(file)
	if err != nil {
		return nil, fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server's own priority and fairness limits it
	client, err := workclientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Hub{
		Works: client, Address: Address(config.Host), close: func() error { return nil },
		start: func(ctx context.Context) error { <-ctx.Done(); return nil },
		ready: func() error { return nil }, // the informer says so
	}, nil
}

// Address is how a URL of a broker or an API server tells hubs apart: without what is not for everybody to read, and what
// makes no difference.
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

// defaultPorts are those that a URL need not have.
var defaultPorts = map[string]string{"http": "80", "https": "443", "mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}

// Start keeps the connection until ctx ends. It may be called once.
func (h *Hub) Start(ctx context.Context) error { return h.start(ctx) }

// Ready returns what is missing for works to come and statuses to go.
func (h *Hub) Ready() error { return h.ready() }

// Close lets go of the store, after Start has returned.
func (h *Hub) Close() error { return h.close() }
