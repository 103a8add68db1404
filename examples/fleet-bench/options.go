// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/internal/command"
)

// usage is the text of --help.
const usage = `Usage: go run ./examples/fleet-bench [flags]

Puts a hub and its agents, all in one process, under load over an MQTT broker, and prints
throughput, latency, bytes on the wire and memory. Without --broker it starts Mosquitto.

  --broker URL      the broker: mqtt://, mqtts://, ws:// or wss://
  --agents N        the number of agents, each with its own connection (default 100)
  --light           agents watch their works without an informer: for many in one process
  --works N         the number of works of all agents (default 10000)
  --size BYTES      the size of each work's manifest (default 1024)
  --under-way N     the maximum number of operations in progress (default 512)
  --rate N          round trips per second in the paced phase (default: half of the
                    floor's rate, or without --floor half of the rate of creation)
  --duration D      the duration of the paced phase (default 10s)
  --floor           also measure plain MQTT messages of the same size, over mqtt:// only
  --timeout D       fail after this time without progress (default 60s)
  --svg FILE        draw the result to this file
  --verbose         log the activity of the SDK to standard error
  --help            show this help

Each agent opens a file: for 10,000 agents, raise the limit of this process and the broker
(ulimit -n 20000). Your own broker needs queues for the operations in progress: in Mosquitto
set max_inflight_messages 1000, max_queued_messages 1000000 and set_tcp_nodelay true.

Exit status: 0 after success, 1 after a failure, 2 for a wrong command line.
`

// Limits of one process.
const (
	maxAgents = 60_000
	maxWorks  = 10_000_000
	maxSize   = 1 << 20
)

// options are the options of the command line.
type options struct {
	Broker                        string // its URL; without it, Mosquitto is started
	Agents, Works, Size, UnderWay int
	Light, Floor, Verbose         bool
	Rate                          float64
	Duration, Timeout             time.Duration
	SVG                           string
}

// parse reads arguments, without the program's name. It returns [flag.ErrHelp] for a request for
// help.
func parse(args []string) (options, error) {
	var o options
	flags := command.NewFlags("fleet-bench")
	flags.StringVar(&o.Broker, "broker", "", "")
	flags.IntVar(&o.Agents, "agents", 100, "")
	flags.BoolVar(&o.Light, "light", false, "")
	flags.IntVar(&o.Works, "works", 10_000, "")
	flags.IntVar(&o.Size, "size", 1024, "")
	flags.IntVar(&o.UnderWay, "under-way", 512, "")
	flags.Float64Var(&o.Rate, "rate", 0, "")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "")
	flags.BoolVar(&o.Floor, "floor", false, "")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "")
	flags.StringVar(&o.SVG, "svg", "", "")
	flags.BoolVar(&o.Verbose, "verbose", false, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	return o, o.validate(flags)
}

func (o options) validate(flags command.Flags) error {
	if err := flags.NotEmpty("broker", "svg"); err != nil {
		return err
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"agents", o.Agents, maxAgents}, {"works", o.Works, maxWorks}, {"size", o.Size, maxSize},
		{"under-way", o.UnderWay, 10_000},
	} {
		if err := command.Within(n.name, n.value, 1, n.max); err != nil {
			return err
		}
	}
	switch {
	case flags.Given("rate") && !(o.Rate > 0 && o.Rate <= 1_000_000):
		return fmt.Errorf("--rate must be more than 0 and at most 1000000, not %v", o.Rate)
	case o.Duration < 100*time.Millisecond || o.Duration > time.Hour:
		return fmt.Errorf("--duration must be from 100ms to 1h, not %v", o.Duration)
	case o.Timeout < time.Second:
		return fmt.Errorf("--timeout must be at least 1s, not %v", o.Timeout)
	}
	if o.Broker != "" {
		if _, err := mqtt.New(mqtt.Options{BrokerURL: o.Broker}); err != nil {
			return fmt.Errorf("--broker: %w", err)
		}
	}
	return nil
}
