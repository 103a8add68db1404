// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Fleet-bench measures a hub and any number of agents in one process, over any MQTT broker or over a
// gRPC server in the process of the hub. Each agent has its own connection. For each phase, it prints
// throughput, latency percentiles, bytes on the wire and memory. With --store, the hub is a process
// of its own without an informer. Its memory and its processor time are measured, and its restart and
// the takeover by another hub process.
//
//	go run -C internal/e2e ./fleet-bench
//	go run -C internal/e2e ./fleet-bench --broker mqtt://broker:1883 --agents 1000 --works 100000
//	go run -C internal/e2e ./fleet-bench --store /tmp/works.db --agents 1000 --works 100000
//	go run -C internal/e2e ./fleet-bench --broker grpc --agents 1000 --works 100000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// usage is the text of --help before the flags.
const usage = `Usage: go run -C internal/e2e ./fleet-bench [flags]

Each agent opens a file: for 10,000 agents, raise the limit of this process and the broker
(ulimit -n 20000). With --broker grpc and without --store, it opens two files. Your own broker needs
queues for %d operations in progress: in Mosquitto set max_inflight_messages 1000,
max_queued_messages 1000000 and set_tcp_nodelay true.

`

// options are the options of the command line.
type options struct {
	broker              string // its URL; without it, Mosquitto is started
	ca                  string // the file with the CA of the broker
	tls                 bool   // of the started Mosquitto
	agents, works, size int
	distinct            bool
	store               string // of the hub process; empty if the hub has no process of its own
	hub                 string // the ID of the run, in the hub process
	rate                float64
	duration, timeout   time.Duration
}

func main() {
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program, and returns its exit status: 0 after success, 1 after a failure, 2 for a
// wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if o.hub != "" {
		err = runHub(ctx, o, os.Stdin, stdout)
	} else {
		_, err = measureFleet(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet-bench: %v\n", err)
		return 1
	}
	return 0
}

// parse reads arguments, and prints its error to stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("fleet-bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, usage, underWay)
		flags.PrintDefaults()
	}
	flags.Func("broker", "the `URL` of the broker: mqtt://, mqtts://, ws:// or wss://, or grpc for a gRPC server in the\n"+
		"process of the hub (default: a new Mosquitto)",
		func(url string) error {
			if o.broker = url; url == ownServer || strings.HasPrefix(url, serverScheme) { // a URL for a hub process
				return nil
			}
			_, err := mqtt.New(mqtt.Options{BrokerURL: url})
			return err
		})
	flags.StringVar(&o.ca, "ca", "", "the `file` with the CA of the broker's certificate (default: those of the system)")
	flags.BoolVar(&o.tls, "tls", false, "start the new Mosquitto or gRPC server with TLS")
	flags.IntVar(&o.agents, "agents", 100, "the number of agents, each with its own connection")
	flags.IntVar(&o.works, "works", 10_000, "the number of works of all agents")
	flags.IntVar(&o.size, "size", 1024, "the size of each work's manifest in bytes")
	flags.BoolVar(&o.distinct, "distinct", false, "let the manifests of all works differ")
	flags.StringVar(&o.store, "store", "",
		"run the hub in its own process with this `store`: memory, a new file, postgres://... or\n"+
			"etcd://host:port,... (the works of the run stay in a file or a database)")
	flags.StringVar(&o.hub, "hub", "", "be the hub process of the run with this `ID` (internal)")
	flags.Float64Var(&o.rate, "rate", 0,
		"round trips per second in the paced phase (default: half of the rate of creation)")
	flags.DurationVar(&o.duration, "duration", 10*time.Second,
		"the duration of the paced phase, or of the idle phase with --store")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "fail after this time without progress")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.validate()
	if flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet-bench: %v\nRun with --help for the usage.\n", err)
	}
	return o, err
}

func (o options) validate() error {
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"agents", o.agents, 1, 60_000}, {"works", o.works, 1, 10_000_000}, {"size", o.size, 1, 1 << 20},
	} {
		if n.value < n.min || n.value > n.max {
			return fmt.Errorf("--%s must be from %d to %d, not %d", n.name, n.min, n.max, n.value)
		}
	}
	switch {
	case o.store != "" && storeKind(o.store) == "":
		return fmt.Errorf("--store must be memory, a file, postgres://... or etcd://..., not %q", o.store)
	case o.broker == ownServer && (storeKind(o.store) == "postgres" || storeKind(o.store) == "etcd"):
		return errors.New("--broker grpc has one hub: it needs --store memory or a file")
	case o.tls && o.broker != "" && o.broker != ownServer:
		return errors.New("--tls is for a new Mosquitto or gRPC server: it excludes --broker URL")
	case !(o.rate >= 0 && o.rate <= 1_000_000):
		return fmt.Errorf("--rate must be from 0 to 1000000, not %v", o.rate)
	case o.duration < 100*time.Millisecond || o.duration > time.Hour:
		return fmt.Errorf("--duration must be from 100ms to 1h, not %v", o.duration)
	case o.timeout < time.Second:
		return fmt.Errorf("--timeout must be at least 1s, not %v", o.timeout)
	}
	return nil
}
