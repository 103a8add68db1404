// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/agent/internal/cli"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/hub"
	"github.com/spokewire/sdk-go/examples/agent/internal/serve"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/broker"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/kubeconfig"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/internal/wait"
)

func main() { command.Main(run) }

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[cli.Options]{Name: "agent", Usage: cli.Usage, Parse: cli.Parse, Check: check}
	return p.Run(args, stdout, stderr, func(o cli.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		return agent(ctx, o, stdout)
	})
}

func check(o cli.Options) error {
	if o.Transport == cli.Kube {
		return nil
	}
	return broker.Check(o.Broker)
}

// part is a component that runs until ctx ends.
type part func(context.Context) error

// agent runs until ctx or one of its parts ends.
func agent(ctx context.Context, o cli.Options, stdout io.Writer) (err error) {
	config, err := kubeconfig.Load(o.Kubeconfig)
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
	former := make([]string, len(o.HubWas))
	for i, was := range o.HubWas {
		former[i] = hub.Address(was)
	}
	cluster, err := spoke.New(spoke.Options{
		Config: config, Hub: o.Hub, Origin: spoke.Origin{Address: h.Address, Sources: o.Sources}, FormerAddresses: former,
		Adoption: o.Adoption, Executors: o.Executors, SecretFeedback: o.SecretFeedback, EvictionGrace: o.EvictionGrace,
	})
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
		server, err := serve.Listen(o.Listen, metrics, func() error {
			if !installed.Load() {
				return errors.New("the API server of the cluster has not answered yet, or has not established the CRD of AppliedWork")
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

const (
	installAgain  = 500 * time.Millisecond
	installAtMost = 30 * time.Second
)

// install installs the CRD on the cluster. While the API server is unreachable it retries, until
// ctx ends.
func install(ctx context.Context, cluster *spoke.Cluster, stdout io.Writer) error {
	for attempt := 0; ; attempt++ {
		err := cluster.Install(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || !spoke.Away(err):
			return err
		case attempt == 0:
			fmt.Fprintf(stdout, "not yet   %v; it is tried again until the API server answers\n", err)
		}
		if wait.Sleep(ctx, clock.RealClock{}, wait.Backoff(installAgain, installAtMost, attempt)) != nil {
			return nil
		}
	}
}

// open returns the hub of the command line.
func open(o cli.Options, metrics prometheus.Registerer) (*hub.Hub, error) {
	if o.Transport == cli.Kube {
		return hub.OnAPIServer(o.HubKubeconfig)
	}
	return hub.OverBroker(hub.Broker{MQTT: o.Broker, ClusterName: o.Cluster, Sources: o.Sources, Store: o.Store}, metrics)
}

func readiness(h *hub.Hub, c *controller.Controller) error {
	if !c.Synced() {
		return errors.Join(errors.New("the works of the hub are not known yet"), h.Ready())
	}
	return h.Ready()
}

// together runs all parts, and stops all when one ends.
func together(ctx context.Context, parts ...part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, p := range parts {
		group.Go(func() {
			defer cancel()
			errs[i] = p(ctx)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
