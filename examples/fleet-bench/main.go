// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Fleet-bench puts the SDK under load, over any MQTT broker. One process has a hub and any number
// of agents, each with its own connection, informer and controller. It prints throughput, latency
// percentiles, bytes on the wire and memory for each phase, and draws them.
//
//	go run ./examples/fleet-bench --floor --svg fleet.svg
//	go run ./examples/fleet-bench --agents 10000 --works 20000 --broker mqtt://broker:1883
//
// The hub and its agents are in internal/fleet, the phases in internal/bench.
package main

import (
	"context"
	"io"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/bench"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/broker"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/floor"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// otherFiles is the number of open files in addition to one for each agent.
const otherFiles = 100

func main() { command.Main(run) }

// run runs the program, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[options]{Name: "fleet-bench", Usage: usage, Parse: parse}
	return p.Run(args, stdout, stderr, func(o options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		_, err := fleetBench(ctx, o, stdout)
		return err
	})
}

// fleetBench runs all phases. After an error, it prints the results so far.
func fleetBench(ctx context.Context, o options, stdout io.Writer) (*report.Report, error) {
	if err := measure.AllowFiles(o.Agents + otherFiles); err != nil {
		return nil, err
	}
	drawing, err := openDrawing(o.SVG) // before the run, which may be long
	if err != nil {
		return nil, err
	}
	defer drawing.close()
	options, end, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer end()

	r := bench.Head(options)
	out := &writer{to: stdout}
	options.Done = func(p *report.Phase) { out.print(p.Text()) }
	out.print(r.Head())
	err = bench.Run(ctx, options, r)
	out.print(r.Tail())
	if err == nil {
		err = drawing.draw(r)
	}
	if err == nil {
		err = out.err
	}
	return r, err
}

// prepare returns the options of the run, with a broker if needed, and the function that stops it.
func prepare(ctx context.Context, o options) (options bench.Options, end func(), err error) {
	options = bench.Options{
		MQTT: mqtt.Options{BrokerURL: o.Broker}, Agents: o.Agents, Works: o.Works, Size: o.Size, UnderWay: o.UnderWay,
		Light: o.Light, Rate: o.Rate, Duration: o.Duration, Timeout: o.Timeout, Floor: o.Floor,
	}
	if o.Broker != "" {
		if o.Floor {
			err = floor.Check(o.Broker)
		}
		return options, func() {}, err
	}
	b, err := broker.Start(ctx)
	if err != nil {
		return options, nil, err
	}
	options.Broker, options.MQTT.BrokerURL = b, b.URL()
	return options, b.Stop, nil
}

// writer stores the first error.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) print(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, text)
	}
}
