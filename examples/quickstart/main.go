// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Quickstart shows the SDK with a single command. A hub sends a work to each of two clusters, and
// their agents apply it and report its status. Then the hub updates the works, and deletes them.
//
//	go run ./examples/quickstart
//
// Everything runs in one process and in memory. With --grpc, the hub serves its agents over gRPC.
// Read hub.go and agent.go first. For real clusters, see TUTORIAL.md and examples/agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

const usage = `Usage: go run ./examples/quickstart [flags]

A hub sends works to two clusters in memory, updates and deletes them; their agents apply them.

  --grpc  let the hub serve its agents over gRPC, at a port of the loopback interface
  --help  show this help
`

var clusters = []string{"cluster1", "cluster2"}

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[bool]{Name: "quickstart", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(overGRPC bool) error { return quickstart(ctx, overGRPC, stdout) })
}

func parse(args []string) (overGRPC bool, err error) {
	flags := command.NewFlags("quickstart")
	flags.BoolVar(&overGRPC, "grpc", false, "")
	err = flags.Parse(args)
	return overGRPC, err
}

// connect returns the transport of the hub, and those of the agents.
func connect(ctx context.Context, overGRPC bool) (_ cloudevents.Transport, agents []cloudevents.Transport, err error) {
	if !overGRPC {
		bus := memory.New()
		return bus.Transport(), []cloudevents.Transport{bus.Transport(), bus.Transport()}, nil
	}
	everyone := grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil }) // without TLS
	server, err := grpc.NewServer(grpc.ServerOptions{Insecure: true, Authorizer: everyone})
	listener, listenErr := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, listenErr); err != nil {
		return nil, nil, err
	}
	go func() { _ = server.Serve(ctx, listener) }()
	for range clusters {
		t, invalid := grpc.New(grpc.Options{Address: listener.Addr().String(), Insecure: true})
		agents, err = append(agents, t), errors.Join(err, invalid)
	}
	return server.Transport(), agents, err
}

// quickstart runs the hub and the agents, until the hub is done or one of them fails.
func quickstart(ctx context.Context, overGRPC bool, stdout io.Writer) error {
	sourceID, out := "quickstart-"+rand.String(8), log.New(stdout, "", 0)
	hubTransport, transports, err := connect(ctx, overGRPC)
	if err != nil {
		return err
	}
	source, err := work.NewSource(hubTransport, work.SourceOptions{SourceID: sourceID})
	if err != nil {
		return err
	}
	services := []func(context.Context) error{source.Start}
	for i, name := range clusters {
		connection, err := work.NewAgent(transports[i], work.AgentOptions{ClusterName: name, Sources: []string{sourceID}})
		if err != nil {
			return err
		}
		a := &agent{name: name, works: connection.Clientset().WorkV1().ManifestWorks(name),
			cluster: fake.NewSimpleDynamicClient(runtime.NewScheme()), out: out}
		services = append(services, connection.Start, a.run)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range services {
		group.Go(func() error { return service(ctx) })
	}
	group.Go(func() error {
		defer stop()
		return (&hub{source: source, works: source.Clientset().WorkV1(), out: out}).run(ctx)
	})
	if err = group.Wait(); err == nil {
		_, err = fmt.Fprintln(stdout, "Done: all works and their objects are deleted.")
	}
	return err
}
