// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Quickstart shows the SDK with a single command: a hub sends manifests to agents, which apply them
// to their clusters and report the results. All run in one process, and the broker and the clusters
// are in memory.
//
//	go run ./examples/quickstart
//
// Use --broker for an MQTT broker, --kubeconfig for real clusters, and --manifests for your own
// manifests. Function connect uses the SDK. The hub (hub.go) and the agent (agent.go) use its
// clientsets like any other. A complete agent is examples/agent.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

//go:embed manifests
var shipped embed.FS

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "quickstart", Usage: usage, Parse: parse, Check: check}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		out := &printer{to: stdout}
		return errors.Join(quickstart(ctx, o, out), out.err)
	})
}

// printer prints lines from any goroutine, and keeps the first error.
type printer struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

func (p *printer) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format+"\n", args...)
	}
}

// quickstart runs all steps once.
func quickstart(ctx context.Context, o options, out *printer) error {
	folder, _ := fs.Sub(shipped, "manifests")
	if o.Manifests != "" {
		folder = os.DirFS(o.Manifests)
	}
	files, err := readManifests(folder)
	if err != nil {
		return fmt.Errorf("--manifests %s: %w", o.Manifests, err)
	}
	clusters, err := openClusters(o)
	if err != nil {
		return err
	}
	begin := time.Now()
	// The services outlive ctx, for the cleanup. ctx ends when one fails.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, fail := context.WithCancelCause(ctx)
	var services sync.WaitGroup
	defer func() {
		stop()
		services.Wait()
	}()
	start := func(service func(context.Context) error) {
		services.Go(func() { fail(service(running)) })
	}
	h := &hub{clusters: clusters, files: files, timeout: o.Timeout, print: out.print, changes: make(chan change)}
	if err = connect(ctx, o, h, start); err == nil {
		err = h.run(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // more precise than the interrupted call
	}
	if cleanup := h.cleanup(running); cleanup != nil {
		err = errors.Join(err, fmt.Errorf("not everything was removed: %w", cleanup))
	}
	if err == nil {
		out.print("\nDone. %s for %s: %s applied and reported, one work updated, one deleted, in %v.",
			count(len(files), "file"), count(len(clusters), "cluster"), count(h.objects(), "object"), since(begin))
	}
	return err
}

// connect starts a source for the hub and an agent for each cluster, each with its own transport.
// It waits until they have reached the broker.
func connect(ctx context.Context, o options, h *hub, start func(func(context.Context) error)) error {
	bus := memory.New()
	transport := func() (cloudevents.Transport, error) {
		if o.Broker == "" {
			return bus.Transport(), nil
		}
		return mqtt.New(mqtt.Options{BrokerURL: o.Broker})
	}
	t, err := transport()
	if err != nil {
		return err
	}
	// The ID is new for each run, to avoid conflicts with works of other runs.
	id := "quickstart-" + rand.String(8)
	source, err := work.NewSource(t, work.SourceOptions{SourceID: id})
	if err != nil {
		return err
	}
	start(source.Start)
	if err := reach(ctx, source, o.Timeout); err != nil {
		return err
	}
	// No agent has works of this new source ID. Without this call, each agent would wait for works
	// that may still be created.
	if err := source.InventoryComplete(ctx); err != nil {
		return err
	}
	h.works, h.healthy = source.Clientset(), source.Healthy
	start(h.start)
	for _, c := range h.clusters {
		t, err := transport()
		if err != nil {
			return err
		}
		connection, err := work.NewAgent(t, work.AgentOptions{ClusterName: c.name, Sources: []string{id}})
		if err != nil {
			return err
		}
		start(connection.Start)
		a := &agent{cluster: c, works: connection.Clientset(), print: h.print}
		start(a.start)
		if err := reach(ctx, connection, o.Timeout); err != nil {
			return err
		}
	}
	return nil
}

// connection is a source or an agent.
type connection interface {
	Ready() <-chan struct{}
	Healthy() error
}

// reach waits for the first connection.
func reach(ctx context.Context, c connection, timeout time.Duration) error {
	select {
	case <-c.Ready():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(timeout):
		return fmt.Errorf("broker not reached for %v: %w", timeout, c.Healthy())
	}
}
