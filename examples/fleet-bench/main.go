// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Fleet-bench puts the SDK under load: a hub and any number of agents, each with its own connection, informer and
// controller, in one process over any MQTT broker. It prints throughput, latency percentiles, bytes on the wire and
// memory, phase by phase, and draws them.
//
//	go run ./examples/fleet-bench --floor --svg fleet.svg
//	go run ./examples/fleet-bench --agents 10000 --works 20000 --broker mqtt://broker:1883
//
// The hub and its agents are in internal/fleet, what is done with them in internal/bench.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/bench"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/broker"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/cli"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/floor"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// otherFiles is how many files the process opens beside one for each agent.
const otherFiles = 100

func main() { command.Main(run) }

// run is the program without its process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := command.Program[cli.Options]{Name: "fleet-bench", Usage: cli.Usage, Parse: cli.Parse}
	return p.Run(args, stdout, stderr, func(o cli.Options) error {
		ctx, restore := logging.Route(ctx, stderr, o.Verbose)
		defer restore()
		return fleetBench(ctx, o, stdout)
	})
}

// fleetBench is one whole run. What was measured before an error is shown all the same.
func fleetBench(ctx context.Context, o cli.Options, stdout io.Writer) error {
	if err := measure.AllowFiles(o.Agents + otherFiles); err != nil {
		return err
	}
	drawing, err := openDrawing(o.SVG) // first, since a run may be long
	if err != nil {
		return err
	}
	defer drawing.close()
	options, end, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer end()

	r := bench.Head(options)
	out := &writer{to: stdout}
	if o.JSON {
		options.Done = func(*report.Phase) {}
	} else {
		options.Done = func(p *report.Phase) { out.print(p.Text()) }
		out.print(r.Head())
	}
	err = bench.Run(ctx, options, r)
	if o.JSON {
		text, _ := json.MarshalIndent(r, "", "  ") // numbers and strings only
		out.print(string(text) + "\n")
	} else {
		out.print(r.Tail())
	}
	if err == nil {
		err = drawing.draw(r)
	}
	if err == nil {
		err = out.err
	}
	return err
}

// drawing is the file to draw to. What was there before stays until there is something to draw.
type drawing struct {
	file  *os.File
	isNew bool
}

// openDrawing opens a file; nil has no name.
func openDrawing(name string) (*drawing, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(name, os.O_WRONLY, 0)
		return &drawing{file: file}, err
	}
	return &drawing{file: file, isNew: true}, err
}

func (d *drawing) draw(r *report.Report) error {
	if d == nil {
		return nil
	}
	d.isNew = false
	if info, err := d.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := d.file.Truncate(0); err != nil {
			return err
		}
	}
	return report.Draw(d.file, r)
}

// close leaves no empty file where there was none.
func (d *drawing) close() {
	if d == nil {
		return
	}
	_ = d.file.Close()
	if d.isNew {
		_ = os.Remove(d.file.Name())
	}
}

// prepare returns what to run, with a broker, and how to end that.
func prepare(ctx context.Context, o cli.Options) (options bench.Options, end func(), err error) {
	profile, name, err := o.WireFormat()
	if err != nil {
		return options, nil, err
	}
	options = bench.Options{
		Profile: profile, ProfileName: name, Agents: o.Agents, Works: o.Works, Size: o.Size, UnderWay: o.UnderWay,
		Light: o.Light, Rate: o.Rate, Duration: o.Duration, Timeout: o.Timeout, Floor: o.Floor,
	}
	url, end := "", func() {}
	if o.Broker == "" && o.OptionsFile == "" {
		b, err := broker.Start(ctx)
		if err != nil {
			return options, nil, err
		}
		options.Broker, url, end = b, b.URL(), b.Stop
	}
	options.MQTT, err = o.MQTT(url)
	if err == nil && o.Floor {
		err = floor.Check(options.MQTT)
	}
	if err != nil {
		end()
	}
	return options, end, err
}

// writer remembers the first error.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) print(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, text)
	}
}
