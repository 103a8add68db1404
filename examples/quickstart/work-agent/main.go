// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Work-agent is the quickstart's agent as a process of its own, as it would run on a managed cluster: it gets works over a
// broker, applies them to the cluster of a kubeconfig, and reports.
//
//	go run ./examples/quickstart/work-agent --broker mqtt://broker:1883 --source hub1 --cluster cluster1
//
// What a work has brought belongs to an AppliedWork on the cluster (kubectl get appliedworks). The process may be
// killed at any moment: the next one goes on where it was. When no agent is to come back, delete the AppliedWorks, and
// everything goes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/kubecluster"
)

const usage = `Usage: go run ./examples/quickstart/work-agent [flags]

Applies the works of a hub that come over a broker to a cluster, until Ctrl-C.

  --broker URL        the broker: mqtt://, mqtts://, ws:// or wss://
  --source ID         the hub: the ID of its source
  --cluster NAME      what the hub calls this cluster
  --kubeconfig FILE   how to reach the cluster (default: as for kubectl)
  --verbose           log what the SDK does, to standard error
  --help              show this
`

type options struct {
	broker, source, cluster, kubeconfig string
	verbose                             bool
}

func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("work-agent")
	flags.StringVar(&o.broker, "broker", "", "")
	flags.StringVar(&o.source, "source", "", "")
	flags.StringVar(&o.cluster, "cluster", "", "")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "")
	flags.BoolVar(&o.verbose, "verbose", false, "")
	err := flags.Parse(args)
	if err == nil && (o.broker == "" || o.source == "" || o.cluster == "") {
		err = errors.New("--broker, --source and --cluster are required")
	}
	return o, err
}

func main() { command.Main(run) }

// run is the program without its process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "work-agent", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Route(ctx, stderr, o.verbose)
		defer restore()
		return serve(ctx, o, stdout)
	})
}

// serve runs the agent until ctx ends.
func serve(ctx context.Context, o options, stdout io.Writer) error {
	cluster, err := kubecluster.New(o.kubeconfig, o.source)
	if err != nil {
		return err
	}
	transport, err := mqtt.New(mqtt.Options{BrokerURL: o.broker})
	if err != nil {
		return err
	}
	connection, err := work.NewAgent(transport, work.AgentOptions{ClusterName: o.cluster, Sources: []string{o.source}})
	if err != nil {
		return err
	}
	var mu sync.Mutex // works are served several at a time
	controller, err := agent.New(agent.Options{ClusterName: o.cluster, Works: connection.Clientset(), Cluster: cluster, Observe: func(e agent.Event) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(stdout, line(e)) // an agent that nobody listens to goes on
	}})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "serving %s at %s\n", o.cluster, cluster.Host())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var connectionErr error
	wg.Go(func() {
		defer cancel()
		connectionErr = connection.Start(ctx)
	})
	err = controller.Start(ctx)
	cancel()
	wg.Wait()
	return errors.Join(err, connectionErr)
}

func line(e agent.Event) string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("not yet   %s generation %d: %v", e.Work, e.Generation, e.Err)
	case e.Deleted:
		return "removed   " + e.Work
	}
	return fmt.Sprintf("applied   %s generation %d", e.Work, e.Generation)
}
