// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/hub"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

func main() { command.Main(run) }

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "agent", Usage: usage, Parse: parse, Check: check}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		return agent(ctx, o, stdout)
	})
}

func check(o options) error {
	if o.Transport == transportKube {
		return nil
	}
	return command.CheckBroker(o.Broker)
}

// agent runs until ctx or one of its parts ends.
func agent(ctx context.Context, o options, stdout io.Writer) (err error) {
	config, err := command.LoadKubeconfig("--kubeconfig", o.Kubeconfig)
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	h, err := open(o, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	cluster, err := openCluster(config, o, h.Address)
	if err != nil {
		return err
	}
	watches, err := controller.NewWatches(config, o.MaxWatches, metrics)
	if err != nil {
		return err
	}
	works, err := controller.New(controller.Options{
		ClusterName: o.Cluster, Works: h.Works, Cluster: cluster, Watches: watches,
		PollInterval: o.Poll, DegradedAfter: o.DegradedAfter, Evicts: o.EvictionGrace > 0,
		Metrics: metrics, Observe: printTo(stdout),
	})
	if err != nil {
		return err
	}
	connection := func(ctx context.Context) error { return h.Start(logging.Notices(ctx)) }
	var installed atomic.Bool
	parts := []part{func(ctx context.Context) error {
		if err := install(ctx, cluster, stdout); err != nil || ctx.Err() != nil {
			return err
		}
		installed.Store(true)
		fmt.Fprintf(stdout, "serving %s at %s for %s\n", o.Cluster, cluster.Host(), h.Address)
		return together(ctx, connection, works.Start)
	}}
	if o.Listen != "" {
		server, err := listen(o.Listen, metrics, func() error {
			if !installed.Load() {
				return errors.New("the API server of the cluster has not answered yet, or has not established the " +
					"CRD of AppliedWork")
			}
			return readiness(h, works)
		})
		if err != nil {
			return err
		}
		parts = append(parts, server.Start)
		fmt.Fprintf(stdout, "listening on %s\n", server.Addr())
	}
	return together(ctx, parts...)
}

// openCluster returns the managed cluster.
func openCluster(config *rest.Config, o options, hubAddress string) (*spoke.Cluster, error) {
	former := make([]string, len(o.HubWas))
	for i, was := range o.HubWas {
		former[i] = hub.Address(was)
	}
	return spoke.New(spoke.Options{
		Config: config, Hub: o.Hub, Origin: spoke.Origin{Address: hubAddress, Sources: o.Sources},
		FormerAddresses: former, Adoption: o.Adoption, Executors: o.Executors,
		SecretFeedback: o.SecretFeedback, EvictionGrace: o.EvictionGrace,
	})
}

// open returns the hub of the command line.
func open(o options, metrics prometheus.Registerer) (*hub.Hub, error) {
	if o.Transport == transportKube {
		return hub.OnAPIServer(o.HubKubeconfig)
	}
	return hub.OverBroker(hub.Broker{MQTT: o.Broker, ClusterName: o.Cluster, Sources: o.Sources, Store: o.Store},
		metrics)
}

func readiness(h *hub.Hub, c *controller.Controller) error {
	if !c.Synced() {
		return errors.Join(errors.New("the works of the hub are not known yet"), h.Ready())
	}
	return h.Ready()
}
