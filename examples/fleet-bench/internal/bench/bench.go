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
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/fleet"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
)

// Broker is a broker that the run may end and start again.
type Broker interface {
	Kill()
	Again(ctx context.Context) error
}

// Options says what to run.
type Options struct {
	// MQTT is the way to the broker.
	MQTT mqtt.Options
	// Broker is the one behind it, nil where it is not ours.
	Broker Broker
	// Profile is the wire format, ProfileName what to call it.
	Profile     codec.Profile
	ProfileName string

	Agents, Works, Size, UnderWay int
	// Rate is how many round trips begin per second in the paced phase, for Duration; 0 is half of what the floor
	// does, or without a floor of what was created.
	Rate     float64
	Duration time.Duration
	// Timeout is for how long nothing may happen.
	Timeout time.Duration
	// Light agents have no informer.
	Light bool
	// Floor says whether plain messages are measured too.
	Floor bool
	// Done is told of each phase.
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

// Head returns the report of a run that has not begun.
func Head(o Options) *report.Report {
	return &report.Report{
		Machine: report.Machine{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()},
		Settings: report.Settings{
			Broker: o.MQTT.BrokerURL, Profile: o.ProfileName, Binary: o.MQTT.Binary || o.Profile.Traits().Binary,
			Agents: o.Agents, Works: o.Works, Size: o.Size, UnderWay: o.UnderWay, Light: o.Light,
		},
	}
}

// Run does all phases and adds them to the report. Where it fails, the report has what was before.
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
	for _, phase := range []func(context.Context) error{r.connect, r.create, r.paced, r.update, r.resync, r.probe, r.reconnect, r.remove} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hostPort is where a valid URL of a broker leads.
func hostPort(brokerURL string) string {
	scheme, rest, _ := strings.Cut(brokerURL, "://")
	rest, _, _ = strings.Cut(rest, "/")
	if strings.LastIndexByte(rest, ':') > strings.LastIndexByte(rest, ']') {
		return rest
	}
	return rest + ":" + map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}[scheme]
}

// phase runs one and adds what it cost. do sets at least Count; Seconds only where it is not the whole time.
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

// creating is a load that creates n works.
func (r *runner) creating(prefix string, n int) *load {
	return newLoad(prefix, n, r.options.UnderWay, func(ctx context.Context, i int) error { return r.fleet.Create(ctx, prefix, i) })
}

// deleting is a load that deletes them.
func (r *runner) deleting(prefix string, n int) *load {
	return newLoad(prefix, n, r.options.UnderWay, func(ctx context.Context, i int) error { return r.fleet.Delete(ctx, prefix, i) })
}

// loadPhase is a phase of round trips.
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

// quiet returns when nothing has moved for a while, at the earliest that while after its call.
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

// pause returns after d, or earlier with an error when the run is to end.
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
