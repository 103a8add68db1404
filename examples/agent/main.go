// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Agent is a work agent for a real cluster. It applies the ManifestWorks that a hub has for the
// cluster, keeps their objects as the works require, reports status, and cleans up. It receives
// works over a broker, from a hub over gRPC, or from the API server of a hub:
//
//	go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db
//
// It supports each field of a ManifestWork. The objects of a work belong to an AppliedWork on the
// cluster. The process may be killed at any moment: the next process continues. Run one agent at a
// time.
//
// README.md in this folder describes the support for each field, the rights of works, limits,
// crashes, drift, evictions, several hubs, the differences from OCM's agent, metrics and access:
// https://github.com/spokewire/sdk-go/blob/main/examples/agent/README.md
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
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
	switch {
	case o.Hub.Address != "":
		return command.CheckHub(o.Hub)
	case o.Broker.BrokerURL != "":
		return command.CheckBroker(o.Broker)
	}
	return nil
}

// agent runs until ctx or one of its parts ends.
func agent(ctx context.Context, o options, stdout io.Writer) (err error) {
	config, err := command.LoadKubeconfig("--kubeconfig", o.Kubeconfig)
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	h, err := connect(o, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	o.Spoke.Config, o.Spoke.Origin = config, spoke.Origin{Address: h.address, Sources: o.Sources}
	cluster, err := spoke.New(o.Spoke)
	if err != nil {
		return err
	}
	o.Works.ClusterName, o.Works.Works, o.Works.Cluster, o.Works.Config = o.Cluster, h.works, cluster, config
	o.Works.Evicts = o.Spoke.EvictionGrace > 0
	o.Works.Metrics, o.Works.Observe = metrics, printTo(stdout)
	works, err := controller.New(o.Works)
	if err != nil {
		return err
	}
	var installed atomic.Bool
	parts := []part{func(ctx context.Context) error {
		if err := install(ctx, cluster, stdout); err != nil || ctx.Err() != nil {
			return err
		}
		installed.Store(true)
		fmt.Fprintf(stdout, "serving %s at %s for %s\n", o.Cluster, cluster.Host(), h.address)
		return command.Together(ctx, h.start, works.Start)
	}}
	if o.Listen != "" {
		address, serve, err := listen(o.Listen, metrics, func() error {
			switch {
			case !installed.Load():
				return errors.New("the API server of the cluster has not answered yet, or has not established the " +
					"CRD of AppliedWork")
			case !works.Synced():
				return errors.Join(errors.New("the works of the hub are not known yet"), h.ready())
			}
			return h.ready()
		})
		if err != nil {
			return err
		}
		parts = append(parts, serve)
		fmt.Fprintf(stdout, "listening on %s\n", address)
	}
	return command.Together(ctx, parts...)
}

// part is a component that runs until ctx ends.
type part = func(context.Context) error

// printTo returns a function that prints a line for an event, unless nothing has changed. It may be
// called concurrently. The agent continues if w is closed.
func printTo(w io.Writer) func(controller.Event) {
	var mu sync.Mutex
	return func(e controller.Event) {
		work := e.Work + ", which the hub does not have"
		if e.Generation != 0 {
			work = fmt.Sprintf("%s generation %d", e.Work, e.Generation)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Err != nil:
			fmt.Fprintf(w, "not yet   %s: %v\n", work, e.Err)
		case e.Deleted:
			fmt.Fprintf(w, "removed   %s: its objects are deleted or orphaned\n", work)
		case e.Changed:
			fmt.Fprintf(w, "applied   %s\n", work)
		}
	}
}
