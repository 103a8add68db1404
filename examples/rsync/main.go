// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Rsync is an engine of package rsync with its gRPC service, and a command line for it. By default
// it has clusters in memory and a store in a file, and needs no other program:
//
//	go run ./examples/rsync serve --fake 2
//
//	go run ./examples/rsync create --cluster fake+cluster1 --cluster fake+cluster2 shop examples/rsync/manifests/v1
//	go run ./examples/rsync diff shop
//	go run ./examples/rsync instantiate shop
//	go run ./examples/rsync status --watch shop
//	go run ./examples/rsync diff --terminate -o json shop
//	go run ./examples/rsync detach shop fake+cluster2
//	go run ./examples/rsync terminate shop
//
// An override changes an object on some clusters with a JSON patch (RFC 6902). A context that is
// created with the following FILE has another color on one of its clusters:
//
//	overrides:
//	- target: {kind: ConfigMap, namespace: default, name: rsync-example-web}
//	  clusters: [fake+cluster2]
//	  patch: [{op: replace, path: /data/color, value: green}]
//
//	go run ./examples/rsync create --cluster fake+cluster1 --cluster fake+cluster2 --override FILE shop2 DIR
//
// A rollout moves from cluster to cluster. With the following FILE, the rollout of "instantiate
// --no-wait --rollout FILE shop" waits after the first cluster until "approve --after shop canary".
// "rollout --watch shop" shows its progress:
//
//	groups:
//	- name: canary
//	  clusters: [fake+cluster1]
//	  approveAfter: true
//	maxConcurrency: 10%
//	minSuccessTime: 10s
//	progressDeadline: 5m
//
// The commands for real clusters are the same. Here one cluster has an API server, one is a folder
// of a git repository, and one has an agent behind a broker. Run mosquitto, serve and the agent in
// terminals of their own:
//
//	mosquitto -p 1883
//	git init --bare fleet.git
//	go run ./examples/rsync serve --kubeconfig-dir clusters --git fleet.git?create-branch=true --broker mqtt://127.0.0.1:1883
//	go run ./examples/agent --broker mqtt://127.0.0.1:1883 --source rsync --cluster c3 --kubeconfig clusters/c3.kubeconfig
//
//	go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop examples/rsync/manifests/v1
//	go run ./examples/rsync instantiate shop
//	go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop2 examples/rsync/manifests/v2
//	go run ./examples/rsync update shop shop2
//	go run ./examples/rsync terminate shop2
//
// --help lists all commands. Function serve is the server, package internal/client the client.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/rsync/internal/client"
	"github.com/spokewire/sdk-go/examples/rsync/internal/clusters"
	"github.com/spokewire/sdk-go/examples/rsync/internal/flags"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[flags.Options]{Name: "rsync", Usage: flags.Usage, Parse: flags.Parse}
	return p.Run(args, stdout, stderr, func(o flags.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		if o.Command == "serve" {
			return serve(ctx, o, stdout)
		}
		return client.Run(ctx, o, stdout)
	})
}

// memoryLimit is the soft limit of Go's memory. Without it, the heap doubles before a garbage
// collection, and calls with large app contexts make much garbage.
const memoryLimit = 192 << 20

// serve runs the engine and its service until ctx ends.
func serve(ctx context.Context, o flags.Options, stdout io.Writer) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	connectors, err := clusters.Open(o.Clusters)
	if err != nil {
		return err
	}
	s, closeStore, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer closeStore()
	engine, err := rsync.New(s, connectors, rsync.Options{Observe: o.Observe})
	if err != nil {
		return err
	}
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{
		Addr: o.Listen, CertFile: o.Cert, KeyFile: o.KeyFile, ClientCAFile: o.ClientCA, Insecure: o.Insecure(),
		AnyClient: !o.Insecure() && o.ClientCA == "", // the command line allows this on loopback addresses only
	})
	if err != nil {
		return err
	}
	// The engine stops after the service, since calls in progress use it.
	group, ctx := errgroup.WithContext(ctx)
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	group.Go(func() error { return engine.Start(engineCtx) })
	group.Go(func() error { return connectors.Start(engineCtx) })
	group.Go(func() error {
		defer stopEngine()
		return server.Start(ctx)
	})
	select {
	case <-server.Ready():
		fmt.Fprintf(stdout, "serving at %s\n", server.Addr())
	case <-ctx.Done():
	}
	return group.Wait()
}
