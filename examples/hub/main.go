// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Hub runs applications on clusters. It reads documents that place applications on clusters, from a
// folder or its HTTP API. It sends the applications to the clusters' agents as ManifestWorks over
// an MQTT broker. It rolls updates out in order and back again, and shows the state on a web page.
// With a broker at localhost:1883:
//
//	go run ./examples/hub --broker mqtt://localhost:1883 --dir examples/hub/samples
//
// README.md in this folder describes how to start agents, the store, rollouts, health,
// customizations, webhooks and metrics:
// https://github.com/spokewire/sdk-go/blob/main/examples/hub/README.md
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/hub/internal/cli"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/hub"
	"github.com/spokewire/sdk-go/examples/hub/internal/objects"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/examples/hub/internal/serve"
	"github.com/spokewire/sdk-go/examples/hub/internal/spokes"
	"github.com/spokewire/sdk-go/examples/internal/broker"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/customizations"
	"github.com/spokewire/sdk-go/examples/internal/filestore"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/rsync"
)

func main() { command.Main(run) }

// memoryLimit is the soft limit of the hub's memory in MiB, in addition to twice --max-memory.
// Without the limit the heap may double before it is collected.
const memoryLimit = 96

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[cli.Options]{Name: "hub", Usage: cli.Usage, Parse: cli.Parse, Check: func(o cli.Options) error { return broker.Check(o.Broker) }}
	return p.Run(args, stdout, stderr, func(o cli.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(int64(memoryLimit+2*o.MaxMemory) << 20)
		}
		transport, err := mqtt.New(o.Broker)
		if err != nil {
			return err
		}
		return start(ctx, o, transport, serve.Say(stdout))
	})
}

// start connects the parts of the hub, and runs them until ctx ends.
func start(ctx context.Context, o cli.Options, transport cloudevents.Transport, say func(string, ...any)) (err error) {
	if err := os.MkdirAll(o.Store, 0o700); err != nil {
		return err
	}
	state, err := filestore.Open(ctx, filepath.Join(o.Store, "state.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // usually closed by the server
	// The parts call each other after changes. Nothing happens before they are started.
	var h *hub.Hub
	var view *page.Page
	changed := func() { view.Changed() }
	registry := serve.Registry()
	own, err := objects.Open(o.Kubeconfig, registry, func(ctx context.Context, application, cause string) error { return h.Changed(ctx, application, cause) })
	if err != nil {
		return err
	}
	customized, err := customizations.Open(o.Customizations...)
	if err != nil {
		return err
	}
	customized.Report(say)
	webhooks, err := openWebhooks(o, own, registry)
	if err != nil {
		return err
	}
	clusters, err := spokes.Open(spokes.Options{
		Transport: transport, SourceID: o.Source, File: filepath.Join(o.Store, "works.db"),
		Interpreter: caller.Chain(customized, webhooks), Native: native.New(), Kinds: kinds.New(),
		Changed: func() { h.WorksChanged(); changed() }, MetricsRegisterer: registry,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clusters.Close()) }()
	engine, err := rsync.New(state, clusters, rsync.Options{
		Transitions: rollout.Transitions(), Comparer: rollout.Everything, MetricsRegisterer: registry,
	})
	if err != nil {
		return err
	}
	rollouts := rollout.New(engine, state, rollout.Options{Keep: o.Revisions, Patience: o.Patience, Missing: clusters.Missing, Say: say, Changed: changed})
	h = hub.New(hub.Options{
		Engine: engine, Store: state, Rollouts: rollouts, Health: clusters.Health, Webhooks: webhooks, Objects: own,
		Mapper: own.Mapper(), Source: o.Source, Dir: o.Dir, LeaveDir: o.LeaveDir,
		MaxMemory: o.MaxMemory << 20, Check: clusters.Check, Settled: clusters.InventoryComplete,
		Forget: clusters.Forget, Heard: clusters.Heard, Beat: spokes.Beat, Say: say, Changed: changed,
	})
	registry.MustRegister(h.Collector())
	if view, err = page.New(h, page.Options{}); err != nil {
		return err
	}
	served := serve.Options{
		Page: view, Metrics: registry, AllowedHosts: o.AllowedHosts,
		Livez:  func(r *http.Request) error { return errors.Join(clusters.Livez(r), state.Healthy()) },
		API:    httpapi.New(httpapi.Options{Hub: h, Rollouts: rollouts, ReadOnly: o.Dir != ""}),
		Readyz: func(r *http.Request) error { return errors.Join(clusters.Readyz(r), engine.Healthy(), state.Healthy()) },
	}
	return runAll(ctx,
		func(ctx context.Context) error { return clusters.Start(logging.Notices(ctx)) },
		own.Start, webhooks.Start, clusters.Health.Start, engine.Start, rollouts.Start,
		func(ctx context.Context) error {
			<-own.Started() // templates read objects
			return h.Start(ctx)
		},
		func(ctx context.Context) error {
			// Before the works are known, an application that is being removed would be missing.
			if !loaded(ctx, h) || !clusters.Health.Synced(ctx) {
				return nil
			}
			say("serving at http://%s", reachable(listener.Addr()))
			return serve.Serve(ctx, listener, served)
		})
}

// runAll runs functions until ctx ends or one of them fails.
func runAll(ctx context.Context, all ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range all {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// reachable returns an address that a browser on this machine can open.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}

// openWebhooks returns a caller of the allowed webhooks. Authors of documents write the
// configurations, but must not choose the destination of objects.
func openWebhooks(o cli.Options, own *objects.Objects, registry *prometheus.Registry) (*caller.Caller, error) {
	return caller.New(caller.Options{
		Mapper: own.Mapper(), MetricsRegisterer: registry,
		AllowedHosts: o.Hosts, AllowedServices: o.Services, AllowedAddresses: o.Networks,
	})
}

// loaded waits until the hub has loaded its first documents. It returns false if ctx ends before.
func loaded(ctx context.Context, h *hub.Hub) bool {
	select {
	case <-h.Loaded():
		return true
	case <-ctx.Done():
		return false
	}
}
