// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Quickstart shows the SDK with a single command: an embedded broker, a hub and agents in one
// process send real manifests to clusters in memory and report how they are applied.
//
//	go run ./examples/quickstart
//
// Use --kubeconfig for real clusters, --broker for another broker, and --manifests for your own
// manifests; --help lists all flags. Function connect uses the SDK. The rest is a hub
// (internal/hub) and a work agent (internal/agent) that use its clientsets like any other, and the
// code that applies works to a real cluster (internal/kubecluster). A complete agent is
// examples/agent.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/broker"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/hub"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/services"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/setup"
)

//go:embed manifests
var shipped embed.FS

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[setup.Options]{Name: "quickstart", Usage: setup.Usage, Parse: setup.Parse}
	return p.Run(args, stdout, stderr, func(o setup.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		// With a log, progress is printed as lines: a redrawn table would overwrite it.
		console := progress.ConsoleFor(stdout, o.Verbose)
		return errors.Join(quickstart(ctx, o, console), console.Err())
	})
}

// quickstart runs all steps once.
func quickstart(ctx context.Context, o setup.Options, console *progress.Console) error {
	s, err := setup.Open(ctx, o, shipped)
	if err != nil {
		return err
	}
	b, err := broker.Open(o.Broker)
	if err != nil {
		return err
	}
	defer b.Close()
	console.Print("Spokewire quickstart: works from a hub to clusters and back\n\n  broker     %s\n%s", b, s)

	g, running := services.New(ctx, b.URL(), o.BrokerTimeout)
	defer g.Stop()
	h, err := connect(running, g, b.URL(), s,
		hub.Options{StatusTimeout: o.Timeout, Files: s.Files, Event: console.Event, Print: console.Print})
	if err != nil {
		if running.Err() != nil {
			err = context.Cause(running) // more precise than the interrupted call
		}
		return err
	}
	g.Go(console.Start)
	summary, err := h.Run(running)
	console.Freeze() // later steps are not shown
	switch {
	case o.Keep:
	case errors.Is(err, services.ErrNotReached): // the agents cannot be reached
	default:
		hint := ""
		if ctx.Err() != nil {
			hint = " (Ctrl-C again to stop at once)"
		}
		if _, cleanup := h.Cleanup(g.Reachable(), hint); cleanup != nil {
			err = errors.Join(err, fmt.Errorf("not everything was removed: %w", cleanup))
		}
	}
	g.Stop()
	if err == nil {
		console.Print("\nDone. %s\n%s", summary, setup.Farewell(o))
	}
	return err
}

// connect starts a source for the hub and an agent for each cluster, each with its own transport.
// It waits until they have reached the broker, and passes their clientsets to the hub and the
// agents.
func connect(ctx context.Context, g *services.Group, url string, s *setup.Setup, o hub.Options) (*hub.Hub, error) {
	transport, err := mqtt.New(mqtt.Options{BrokerURL: url, KeepAlive: services.KeepAlive})
	if err != nil {
		return nil, err
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: s.SourceID})
	if err != nil {
		return nil, err
	}
	g.Go(source.Start)
	// If an agent connected first, it would wait longer for the answer to its first resync.
	if err := g.Reach(ctx, source); err != nil {
		return nil, err
	}
	// No agent has works of this new source ID. Without this call, each agent would wait for works
	// that may still be created.
	if err := source.InventoryComplete(ctx); err != nil {
		return nil, err
	}
	connections := []services.Connection{source}
	for _, c := range s.Clusters {
		transport, err := mqtt.New(mqtt.Options{BrokerURL: url, KeepAlive: services.KeepAlive})
		if err != nil {
			return nil, err
		}
		a, err := work.NewAgent(transport, work.AgentOptions{ClusterName: c.Name, Sources: []string{s.SourceID}})
		if err != nil {
			return nil, err
		}
		controller, err := agent.New(agent.Options{
			ClusterName: c.Name, Works: a.Clientset(), Cluster: c, Observe: setup.Observer(c.Name, o.Event),
		})
		if err != nil {
			return nil, err
		}
		g.Go(a.Start)
		g.Go(controller.Start)
		connections, o.Clusters = append(connections, a), append(o.Clusters, c.Name)
	}
	g.Watch(connections...)
	o.Works = source.Clientset()
	h, err := hub.New(o)
	if err != nil {
		return nil, err
	}
	g.Go(h.Start)
	return h, g.Reach(ctx, connections...)
}
