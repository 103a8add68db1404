// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Quickstart shows the SDK with a single command. A hub sends a work to each of two clusters, and
// their agents apply it and report its status. Then the hub updates the works, and deletes them.
//
//	go run ./examples/quickstart
//
// Everything runs in one process, with the clusters and the broker in memory. With --broker, the
// works travel over an MQTT broker. Read hub.go and agent.go first. For real clusters, see
// TUTORIAL.md and examples/agent.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic/fake"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

const usage = `Usage: go run ./examples/quickstart [flags]

A hub sends works to two clusters in memory, updates and deletes them; their agents apply them.

  --broker URL  send the works over an MQTT broker: mqtt://, mqtts://, ws:// or wss://.
                Run one quickstart at a time on a broker: the clusters have the same names
  --help        show this help
`

var clusters = []string{"cluster1", "cluster2"}

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[[]cloudevents.Transport]{Name: "quickstart", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(t []cloudevents.Transport) error { return quickstart(ctx, t, stdout) })
}

// parse returns the transports of a command line: one for the hub, and one for each agent.
func parse(args []string) ([]cloudevents.Transport, error) {
	flags := command.NewFlags("quickstart")
	broker := flags.String("broker", "", "")
	if err := cmp.Or(flags.Parse(args), flags.NotEmpty("broker")); err != nil {
		return nil, err
	}
	return newTransports(*broker)
}

func newTransports(broker string) (transports []cloudevents.Transport, err error) {
	bus := memory.New()
	for range 1 + len(clusters) {
		var t cloudevents.Transport = bus.Transport()
		if broker != "" {
			if t, err = mqtt.New(mqtt.Options{BrokerURL: broker}); err != nil { // this does not connect
				return nil, fmt.Errorf("--broker: %w", err)
			}
		}
		transports = append(transports, t)
	}
	return transports, nil
}

// quickstart runs the hub and the agents, until the hub is done or one of them fails.
func quickstart(ctx context.Context, transports []cloudevents.Transport, stdout io.Writer) error {
	sourceID, out := "quickstart-"+rand.String(8), log.New(stdout, "", 0)
	source, err := work.NewSource(transports[0], work.SourceOptions{SourceID: sourceID})
	if err != nil {
		return err
	}
	services := []func(context.Context) error{source.Start}
	for i, name := range clusters {
		connection, err := work.NewAgent(transports[1+i], work.AgentOptions{ClusterName: name, Sources: []string{sourceID}})
		if err != nil {
			return err
		}
		works := connection.Clientset().WorkV1().ManifestWorks(name)
		a := &agent{name: name, works: works, cluster: fake.NewSimpleDynamicClient(runtime.NewScheme()), out: out}
		services = append(services, connection.Start, a.run)
	}

	ctx, stop := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not done after 30 s"))
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range services {
		group.Go(func() error { return service(ctx) })
	}
	group.Go(func() error {
		defer stop()
		return (&hub{source: source, works: source.Clientset().WorkV1(), out: out}).run(ctx)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "Done: all works and their objects are deleted.")
	return err
}
