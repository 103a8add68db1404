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
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/internal/certexpiry"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/tracing"
)

func main() { command.Main(run) }

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "install":
			return runInstall(ctx, args[1:], stdout, stderr)
		case "join":
			return joinHub(ctx, args[1:], stdout, stderr)
		}
	}
	p := command.Program[options]{Name: "agent", Usage: usage, Parse: parse, Check: check}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Start(ctx, stderr, o.Log)
		defer restore()
		tracer, stop, err := tracing.Start(ctx, "agent")
		if err != nil {
			return err
		}
		defer stop()
		o.Tracer = tracer
		return agent(ctx, o)
	})
}

// check checks the files of the options.
func check(o options) error {
	err := command.CheckKubeconfig("--kubeconfig", o.Kubeconfig)
	switch {
	case o.unjoined():
		return err
	case o.Hub.Address != "":
		return cmp.Or(err, command.CheckHub(o.Hub))
	case o.Broker.BrokerURL != "":
		return cmp.Or(err, command.CheckBroker(o.Broker))
	}
	return cmp.Or(err, command.CheckKubeconfig("--hub-kubeconfig", o.HubKubeconfig))
}

// agent runs until ctx or one of its parts ends.
func agent(ctx context.Context, o options) (err error) {
	log := klog.FromContext(ctx).WithValues("cluster", o.Cluster)
	config, err := command.LoadKubeconfig("--kubeconfig", o.Kubeconfig)
	if err != nil {
		return err
	}
	if err := o.joinFirst(ctx); err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		certexpiry.New([]string{o.Hub.CertFile, o.Broker.CertFile}, []string{o.Hub.CAFile, o.Broker.CAFile}))

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
	events, err := spoke.NewEvents(ctx, cluster)
	if err != nil {
		return err
	}
	o.Works.Metrics = metrics
	o.Works.Observe = newJournal(log, func(e controller.Event, reason, message string) {
		events.Record(o.Cluster, e.Work, e.Record, reason, message)
	}).record
	works, err := controller.New(o.Works)
	if err != nil {
		return err
	}
	var installed atomic.Bool
	parts := []part{func(ctx context.Context) error {
		if err := installCRD(ctx, cluster); err != nil || ctx.Err() != nil {
			return err
		}
		installed.Store(true)
		log.Info("Started serving works", "apiServer", cluster.Host(), "hub", h.address)
		return command.Together(ctx, h.start, works.Start, events.Start, watchServer(cluster, works, o.Cluster))
	}}
	if o.Listen != "" {
		address, serve, err := listen(o.Listen, metrics, func() error { return ready(installed.Load(), works.Synced(), h) })
		if err != nil {
			return err
		}
		parts = append(parts, serve)
		log.Info("Started listening", "address", address)
	}
	renewer, err := o.renewer()
	if err != nil {
		return err
	}
	return command.Together(ctx, append(parts, renewer...)...)
}

// ready returns why the agent does not serve works, or nil.
func ready(installed, synced bool, h *hub) error {
	switch {
	case !installed:
		return errors.New("the API server of the cluster has not answered yet, or has not established the CRD of AppliedWork")
	case !synced:
		return errors.Join(errors.New("the works of the hub are not known yet"), h.ready())
	}
	return h.ready()
}

// watchServer logs and reports when the API server is lost, and reached again.
func watchServer(cluster *spoke.Cluster, works *controller.Controller, name string) part {
	return func(ctx context.Context) error {
		return logging.Watch{
			Lost: "Lost the API server of the cluster", Back: "Reached the API server of the cluster again",
			KeysAndValues: []any{"cluster", name, "apiServer", cluster.Host()}, Interval: pingInterval,
			Check: func(timed context.Context) error {
				err := cluster.Ping(timed)
				works.Checked(ctx, err)
				return err
			},
		}.Start(ctx)
	}
}

// pingInterval is the time between two checks of the API server.
const pingInterval = 5 * time.Second

// part is a component that runs until ctx ends.
type part = func(context.Context) error
