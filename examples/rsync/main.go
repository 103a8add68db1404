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
//	go run ./examples/rsync diff --terminate shop
//	go run ./examples/rsync detach --cluster fake+cluster2 shop
//	go run ./examples/rsync terminate shop
//
// The next commands use three clusters: one with an API server, one that is a folder of a git
// repository, and one with an agent behind a broker. The kubeconfigs clusters/c1.kubeconfig and
// clusters/c3.kubeconfig must exist. Run mosquitto, serve and the agent in terminals of their own:
//
//	mosquitto -p 1883
//	git init --bare fleet.git
//	go run ./examples/rsync serve --kubeconfig-dir clusters --git fleet.git --broker mqtt://127.0.0.1:1883
//	go run ./examples/agent --broker mqtt://127.0.0.1:1883 --source rsync --cluster c3 --kubeconfig clusters/c3.kubeconfig
//
//	go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop examples/rsync/manifests/v1
//	go run ./examples/rsync instantiate shop
//	go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop2 examples/rsync/manifests/v2
//	go run ./examples/rsync update shop shop2
//	go run ./examples/rsync terminate shop2
//
// The server is in serve.go, and its clients are in client.go. For overrides, rollouts and other
// calls, write a client with an appcontext.Builder and a [rsyncgrpc.Client].
package main

import (
	"context"
	"io"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[*options]{Name: "rsync", Usage: usage(), Parse: parse, Check: check}
	return p.Run(args, stdout, stderr, func(o *options) error {
		ctx, restore := logging.Start(ctx, stderr, o.log)
		defer restore()
		if o.name == "serve" {
			return serve(ctx, o)
		}
		return call(ctx, o, stdout)
	})
}
