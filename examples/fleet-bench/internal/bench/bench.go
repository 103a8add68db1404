// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench puts a fleet under load, one phase after the other.
package bench

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/fleet"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
)

// Broker is a broker that the run may end and start again.
type Broker interface {
	Kill()
	Again(ctx context.Context) error
}

// Options configures [Run].
type Options struct {
	// MQTT has the broker.
	MQTT mqtt.Options
	// Broker is the broker of MQTT if the run may restart it, or nil.
	Broker                        Broker
	Agents, Works, Size, UnderWay int
	// Rate is the number of round trips that start per second in the paced phase, for Duration.
	// With 0, it is half the rate of the floor, or without a floor that of the creation.
	Rate     float64
	Duration time.Duration
	// Timeout limits the time without progress.
	Timeout time.Duration
	// Light is whether agents have no informer.
	Light bool
	// Floor is whether plain messages are measured too.
	Floor bool
	// Done is called after each phase.
	Done func(*report.Phase)
}

// runner is one run.
type runner struct {
	options Options
	fleet   *fleet.Fleet
	wire    *measure.Wire
	report  *report.Report
	failed  func(error) // ends the run
}

// Head returns the report of a run that has not started.
func Head(o Options) *report.Report {
	return &report.Report{
		Machine: report.Machine{
			System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		},
		Settings: report.Settings{
			Broker: o.MQTT.BrokerURL, Agents: o.Agents, Works: o.Works, Size: o.Size, Light: o.Light,
		},
	}
}

// Run runs all phases and adds them to the report. After an error, the report has the phases before
// it.
func Run(ctx context.Context, o Options, into *report.Report) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &runner{options: o, report: into, failed: fail}
	var err error
	if r.wire, err = measure.NewWire(ctx, hostPort(o.MQTT.BrokerURL)); err != nil {
		return err
	}
	if o.Floor {
		if err := r.floor(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if r.fleet != nil {
			r.fleet.Stop()
		}
	}()
	for _, phase := range []func(context.Context) error{
		r.connect, r.create, r.paced, r.update, r.resync, r.probe, r.reconnect, r.remove,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hostPort returns the host and port of a valid broker URL.
func hostPort(brokerURL string) string {
	scheme, rest, _ := strings.Cut(brokerURL, "://")
	rest, _, _ = strings.Cut(rest, "/")
	if strings.LastIndexByte(rest, ':') > strings.LastIndexByte(rest, ']') {
		return rest
	}
	return rest + ":" + map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}[scheme]
}

// phase runs one phase and adds its measurements. do sets at least Count. It sets Seconds only if
// this is not the whole time.
func (r *runner) phase(name, unit string, do func(*report.Phase) error) error {
	p := report.Phase{Name: name, Unit: unit, StepSeconds: measure.Step.Seconds()}
	if r.fleet != nil {
		r.fleet.Meter().Reset()
		defer r.fleet.Observe(fleet.Observer{})
	}
	before, _ := r.wire.Total()
	cpu, allocated, begin := measure.CPU(), measure.Allocated(), time.Now()
	if err := do(&p); err != nil {
		return err
	}
	took := time.Since(begin)
	cpu, allocated = measure.CPU()-cpu, measure.Allocated()-allocated
	if p.Seconds == 0 {
		p.Seconds = took.Seconds()
	}
	if p.Seconds > 0 {
		p.PerSecond = float64(p.Count) / p.Seconds
	}
	if p.Count > 0 {
		p.CPUMicros = float64(cpu.Microseconds()) / float64(p.Count)
		p.AllocatedBytes = allocated / p.Count
	}
	if after, ok := r.wire.Total(); ok && r.fleet != nil {
		p.Wire = &report.Wire{Sent: after.Sent - before.Sent, Received: after.Received - before.Received}
	}
	if r.fleet != nil {
		p.Events = map[string]report.Traffic{}
		for k, traffic := range r.fleet.Meter().Reset() {
			p.Events[fleet.Kinds[k]] = report.Traffic(traffic)
		}
	}
	r.report.Phases = append(r.report.Phases, p)
	r.options.Done(&p)
	return nil
}

// creating returns a load that creates n works.
func (r *runner) creating(prefix string, n int) *load {
	return newLoad(prefix, n, r.options.UnderWay,
		func(ctx context.Context, i int) error { return r.fleet.Create(ctx, prefix, i) })
}

// deleting returns a load that deletes n works.
func (r *runner) deleting(prefix string, n int) *load {
	return newLoad(prefix, n, r.options.UnderWay,
		func(ctx context.Context, i int) error { return r.fleet.Delete(ctx, prefix, i) })
}

// loadPhase runs a phase of round trips.
func (r *runner) loadPhase(ctx context.Context, name string, l *load) error {
	return r.phase(name, "round trips", func(p *report.Phase) error {
		r.fleet.Observe(fleet.Observer{Reported: l.finished})
		return r.run(ctx, l, p)
	})
}

func (r *runner) run(ctx context.Context, l *load, p *report.Phase) error {
	l.series = measure.NewSeries()
	if err := l.run(ctx, r.options.Timeout); err != nil {
		return err
	}
	p.Count, p.Latency, p.Series = int64(len(l.began)), report.LatencyOf(&l.latency), l.series.PerSecond()
	return nil
}

// quiet waits until no event was published or received for quietFor since its call.
func (r *runner) quiet(ctx context.Context) error {
	begin := time.Now()
	for {
		last := r.fleet.Meter().Last()
		if last.Before(begin) {
			last = begin
		}
		rest := quietFor - time.Since(last)
		if rest <= 0 {
			return nil
		}
		if err := r.pause(ctx, rest); err != nil {
			return err
		}
	}
}

// pause waits for d. It returns an error if ctx ends earlier.
func (r *runner) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
