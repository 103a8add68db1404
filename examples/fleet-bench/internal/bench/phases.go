// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/fleet"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/floor"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
)

const (
	// quietFor is the time without events after which a phase has ended.
	quietFor = 500 * time.Millisecond
	// probesPerSecond is the rate of round trips during the resync of the probe phase. It lasts for
	// probeTime, or the time of the paced phase if that is less.
	probesPerSecond = 100
	probeTime       = 3 * time.Second
	outage          = 500 * time.Millisecond
)

// names of phases, in their order.
const (
	floorPhase     = "floor"
	connectPhase   = "connect"
	createPhase    = "create"
	pacedPhase     = "paced"
	updatePhase    = "update"
	resyncPhase    = "resync"
	probePhase     = "probe"
	reconnectPhase = "reconnect"
	deletePhase    = "delete"
)

// prefixes of the names of works, by the phase that creates them.
const (
	workPrefix      = "work-"
	pacedPrefix     = "paced-"
	probePrefix     = "probe-"
	reconnectPrefix = "reconnect-"
)

// floor measures plain messages with the sizes of a work and its status on the wire.
func (r *runner) floor(ctx context.Context) error {
	const around = 500 // bytes of an event without its manifest
	o := floor.Options{
		Broker: r.options.MQTT.BrokerURL, Trips: r.options.Works, Size: r.options.Size + around,
		UnderWay: r.options.UnderWay,
	}
	return r.phase(floorPhase, "plain echoes", func(p *report.Phase) error {
		latency, series, took, err := floor.Run(ctx, o)
		if err != nil {
			return err
		}
		p.Count, p.Seconds = int64(o.Trips), took.Seconds()
		p.Latency, p.Series = report.LatencyOf(latency), series.PerSecond()
		return nil
	})
}

// connect starts the fleet. Each agent requests its works from the source, which has none.
func (r *runner) connect(ctx context.Context) error {
	before := measure.Live()
	var err error
	r.fleet, err = fleet.New(fleet.Options{
		MQTT: r.options.MQTT, Agents: r.options.Agents, Size: r.options.Size, Light: r.options.Light,
		Failed: r.failed,
	})
	if err != nil {
		return err
	}
	err = r.phase(connectPhase, "connections", func(p *report.Phase) error {
		p.Count = int64(r.fleet.Size())
		ctx, cancel := context.WithTimeoutCause(ctx, r.connectLimit(),
			fmt.Errorf("not all are connected after %v", r.connectLimit()))
		defer cancel()
		return r.fleet.Connect(ctx)
	})
	if err != nil {
		return err
	}
	if err := r.quiet(ctx); err != nil {
		return err
	}
	r.report.PerAgent = report.Share(measure.Live().Minus(before), r.fleet.Size())
	return nil
}

// create creates the works. Each one is a round trip: the hub's Create, the agent's informer, its
// report, and the hub's informer.
func (r *runner) create(ctx context.Context) error {
	before := measure.Live()
	if err := r.loadPhase(ctx, createPhase, r.creating(workPrefix, r.options.Works)); err != nil {
		return err
	}
	if err := r.quiet(ctx); err != nil {
		return err
	}
	r.report.PerWork = report.Share(measure.Live().Minus(before), r.options.Works)
	return nil
}

// paced makes round trips at a rate below the limit, to measure the latency without queues.
func (r *runner) paced(ctx context.Context) error {
	rate := r.options.Rate
	if rate == 0 {
		reference := r.report.Phase(createPhase)
		if f := r.report.Phase(floorPhase); f != nil {
			reference = f
		}
		rate = reference.PerSecond / 2
	}
	l := r.creating(pacedPrefix, max(1, int(rate*r.options.Duration.Seconds())))
	l.perSecond = rate
	if err := r.loadPhase(ctx, pacedPhase, l); err != nil {
		return err
	}
	return r.clean(ctx, pacedPrefix, len(l.began))
}

// update changes each work at once.
func (r *runner) update(ctx context.Context) error {
	l := r.creating(workPrefix, r.options.Works)
	l.begin = func(ctx context.Context, i int) error { return r.fleet.Update(ctx, workPrefix, i, 1) }
	return r.loadPhase(ctx, updatePhase, l)
}

// resync measures a resync without differences.
func (r *runner) resync(ctx context.Context) error {
	return r.phase(resyncPhase, "unchanged works", func(p *report.Phase) error {
		began := time.Now()
		r.fleet.Resync()
		if err := r.quiet(ctx); err != nil {
			return err
		}
		p.Count, p.Seconds = int64(r.options.Works), max(0, r.fleet.Meter().Last().Sub(began).Seconds())
		return nil
	})
}

// probe makes a few round trips during a resync.
func (r *runner) probe(ctx context.Context) error {
	lasts := min(probeTime, r.options.Duration)
	l := r.creating(probePrefix, int(probesPerSecond*lasts.Seconds()))
	l.perSecond = probesPerSecond
	timer := time.AfterFunc(lasts/3, r.fleet.Resync)
	defer timer.Stop()
	if err := r.loadPhase(ctx, probePhase, l); err != nil {
		return err
	}
	return r.clean(ctx, probePrefix, len(l.began))
}

// reconnect restarts the broker with half a second in between, and creates a work in the meantime.
// If the run did not start the broker, it cuts all connections instead.
func (r *runner) reconnect(ctx context.Context) error {
	l := r.creating(reconnectPrefix, 1)
	err := r.phase(reconnectPhase, "connections", func(p *report.Phase) error {
		r.fleet.Observe(fleet.Observer{Reported: l.finished})
		before := r.fleet.Meter().Connects()
		r.wire.Total() // closed connections have no counters
		first := make(chan error, 1)
		begin, err := r.interrupt(ctx, func() { go func() { first <- l.run(ctx, r.options.Timeout) }() })
		if err != nil {
			return err
		}
		if err := <-first; err != nil {
			return err
		}
		p.Fact("the first work was reported after", time.Since(begin))
		p.Count = int64(r.fleet.Size())
		if err := r.reconnected(ctx, before+p.Count, begin); err != nil {
			return err
		}
		p.Seconds = time.Since(begin).Seconds()
		if err := r.quiet(ctx); err != nil {
			return err
		}
		p.Fact("all agents were in sync after", r.fleet.Meter().Last().Sub(begin))
		return nil
	})
	if err != nil {
		return err
	}
	return r.clean(ctx, reconnectPrefix, 1)
}

// interrupt returns when clients can connect again. It calls meanwhile while no client is
// connected.
func (r *runner) interrupt(ctx context.Context, meanwhile func()) (time.Time, error) {
	if r.options.Broker == nil {
		r.fleet.Cut()
		begin := time.Now()
		meanwhile()
		return begin, nil
	}
	r.options.Broker.Kill()
	meanwhile()
	if err := r.pause(ctx, outage); err != nil {
		return time.Time{}, err
	}
	err := r.options.Broker.Again(ctx)
	return time.Now(), err
}

// reconnected waits for a number of connections since the start, and until all clients are
// connected.
func (r *runner) reconnected(ctx context.Context, connects int64, begin time.Time) error {
	limit := r.connectLimit()
	for r.fleet.Meter().Connects() < connects || r.fleet.Connected() < r.fleet.Size() {
		if err := r.pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if waited := time.Since(begin); waited > limit {
			return fmt.Errorf("%d of %d are connected again after %v", r.fleet.Connected(), r.fleet.Size(), waited)
		}
	}
	return nil
}

// connectLimit returns the time limit for connecting all clients.
func (r *runner) connectLimit() time.Duration {
	return r.options.Timeout + time.Duration(r.options.Agents)*10*time.Millisecond
}

// remove deletes the works.
func (r *runner) remove(ctx context.Context) error {
	return r.phase(deletePhase, "works", func(p *report.Phase) error {
		l := r.deleting(workPrefix, r.options.Works)
		r.fleet.Observe(fleet.Observer{Gone: l.finished})
		return r.run(ctx, l, p)
	})
}

// clean deletes the works of one phase.
func (r *runner) clean(ctx context.Context, prefix string, n int) error {
	l := r.deleting(prefix, n)
	r.fleet.Observe(fleet.Observer{Gone: l.finished})
	defer r.fleet.Observe(fleet.Observer{})
	if err := l.run(ctx, r.options.Timeout); err != nil {
		return err
	}
	return r.quiet(ctx)
}
