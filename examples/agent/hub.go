// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// hub is the connection to a hub. All have the same clientset, and the rest of the agent does
// not depend on the kind of the connection.
type hub struct {
	works workclientset.Interface
	// address is the address of the broker or the API server. It identifies the hub.
	address string
	start   part
	ready   func() error // an error while works and statuses cannot be exchanged
	close   func() error // closes the store after start has returned
}

// connect returns the hub of the command line. The connection begins in start.
func connect(o options, metrics prometheus.Registerer) (*hub, error) {
	if o.HubKubeconfig != "" {
		return onAPIServer(o.HubKubeconfig)
	}
	transport, address, err := transportOf(o)
	if err != nil {
		return nil, err
	}
	agentOptions := work.AgentOptions{
		ClusterName: o.Cluster, Sources: o.Sources, MetricsRegisterer: metrics, Tracer: o.Tracer,
	}
	if o.Bundles {
		agentOptions.Profile = codec.ManifestBundle
	}
	closeStore := func() error { return nil }
	if o.Store != "" {
		store, err := boltstore.Open(o.Store, boltstore.Options{})
		if errors.Is(err, boltstore.ErrDamaged) {
			return nil, fmt.Errorf("--store: %w: remove the file; the agent then requests the works again", err)
		}
		if err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
		agentOptions.Store, closeStore = store, store.Close
	}
	agent, err := work.NewAgent(transport, agentOptions)
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	return &hub{
		works: agent.Clientset(), address: address, close: closeStore,
		start: agent.Start,
		ready: func() error { return agent.Readyz(nil) },
	}, nil
}

// transportOf returns the transport to the hub or the broker, and its address.
func transportOf(o options) (transport cloudevents.Transport, address string, err error) {
	if o.Hub.Address != "" {
		if transport, err = grpc.New(o.Hub); err != nil {
			return nil, "", err
		}
		return transport, addressOf("grpc://" + o.Hub.Address), nil
	}
	if transport, err = mqtt.New(o.Broker); err != nil {
		return nil, "", err
	}
	return transport, addressOf(o.Broker.BrokerURL), nil
}

func onAPIServer(kubeconfig string) (*hub, error) {
	config, err := command.LoadKubeconfig("--hub-kubeconfig", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server's own priority and fairness limits it
	client, err := workclientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	noop := func() error { return nil } // Controller.Synced covers the readiness
	return &hub{
		works: client, address: addressOf(config.Host), ready: noop, close: noop,
		start: func(ctx context.Context) error { <-ctx.Done(); return nil },
	}, nil
}

// addressOf returns the part of a URL that identifies a broker or an API server: without credentials,
// query and default port.
func addressOf(raw string) string {
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
