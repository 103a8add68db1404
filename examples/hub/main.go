// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Hub runs applications on clusters. It reads documents that place applications on clusters, from a
// folder or its HTTP API. It sends the applications to the clusters' agents as ManifestWorks, over
// gRPC or an MQTT broker. It rolls updates out in order and back again, and shows the state on a
// web page. With a broker at localhost:1883:
//
//	go run ./examples/hub --broker mqtt://localhost:1883 --dir examples/hub/samples
//
// README.md in this folder describes how to start agents, the store, rollouts, health,
// customizations, webhooks and metrics:
// https://github.com/spokewire/sdk-go/blob/main/examples/hub/README.md
package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/hub/internal/client"
	"github.com/spokewire/sdk-go/examples/internal/certs"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/commands"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/tracing"
)

func main() { command.Main(run) }

// memoryLimit is the soft limit of the hub's memory in MiB, in addition to twice --max-memory.
// Without the limit the heap may double before it is collected.
const memoryLimit = 96

// run is the program without the process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return client.Run(ctx, args, stdout, stderr,
			certs.Command("hub"),
			commands.Of("install", "print or apply the manifests that run a hub in a cluster", installation.Run),
			restoreCommand(stdout))
	}
	p := command.Program[options]{
		Name: "hub", Usage: usage, Parse: parse, Check: check,
	}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Start(ctx, stderr, o.Log)
		defer restore()
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(int64(memoryLimit+2*o.MaxMemory) << 20)
		}
		tracer, stop, err := tracing.Start(ctx, "hub")
		if err != nil {
			return err
		}
		defer stop()
		o.Tracer = tracer
		broker := func() (cloudevents.Transport, error) { return mqtt.New(o.Broker) }
		return start(ctx, o, broker)
	})
}
