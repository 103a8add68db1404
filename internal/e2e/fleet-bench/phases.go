// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// quietFor is the time without events after which a phase has ended.
	quietFor = 500 * time.Millisecond
	// probesPerSecond is the rate of round trips during the resync of the probe phase. It lasts for
	// probeTime, or the time of the paced phase if that is less.
	probesPerSecond = 100
	probeTime       = 3 * time.Second
	// outage is the time between the end and the start of the broker.
	outage = 500 * time.Millisecond
	// otherFiles is the number of open files in addition to those of agents.
	otherFiles = 100
)

// workPrefix is the prefix of the names of the works that stay until the last phase.
const workPrefix = "work-"

// bench is one run.
type bench struct {
	options options
	broker  broker // nil if it runs elsewhere
	before  memory // without the fleet
	fleet   *fleet
	out     io.Writer
	phases  []phase
	state   func() string // what a phase prints about the process; nil without --store
}

// measureFleet runs all phases, and prints each when it has ended. After an error, it returns the
// phases before it.
func measureFleet(ctx context.Context, o options, out io.Writer) ([]phase, error) {
	files := o.agents + otherFiles
	if o.broker == ownServer && o.store == "" {
		files += o.agents
	}
	if err := checkFiles(files); err != nil {
		return nil, err
	}
	b := &bench{options: o, out: out}
	switch o.broker {
	case "":
		started, err := newMosquitto(o.tls)
		if err != nil {
			return nil, err
		}
		defer started.stop()
		b.broker, b.options.broker, b.options.ca = started, started.url(), cmp.Or(started.ca, o.ca)
	case ownServer:
		url, certificate, remove, err := place(o.tls)
		defer remove()
		if err != nil {
			return nil, err
		}
		b.options.broker, b.options.ca = url, certificate
	}
	if _, err := io.WriteString(out, head(b.options)); err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b.before = live()
	b.fleet = newFleet(b.options, newID(), fail)
	defer b.fleet.stop()
	if err := b.fleet.addAgents(); err != nil {
		return nil, err
	}
	measure := b.allPhases
	if o.store != "" {
		measure = b.hubPhases
	}
	if err := measure(ctx); err != nil {
		return b.phases, cmp.Or(context.Cause(ctx), err)
	}
	return b.phases, nil
}

// allPhases runs the phases of a fleet in this process.
func (b *bench) allPhases(ctx context.Context) error {
	if err := b.serve(); err != nil {
		return err
	}
	if err := b.fleet.addSource(nil); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{
		b.connect, b.create, b.paced, b.update, b.resync, b.probe, b.reconnect, b.remove,
	} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// phase runs one phase, and prints its measurements. do sets at least count and took.
func (b *bench) phase(name, unit string, do func(*phase) error) error {
	b.fleet.meter.reset()
	p := phase{name: name, unit: unit, wire: wire()}
	if err := do(&p); err != nil {
		return err
	}
	p.wire = wire().minus(p.wire)
	p.events = b.fleet.meter.reset()
	if b.state != nil {
		p.facts = append(p.facts, b.state())
	}
	b.phases = append(b.phases, p)
	_, err := io.WriteString(b.out, p.text())
	return err
}

// connect starts the fleet. Each agent requests its works from the source, which has none.
func (b *bench) connect(ctx context.Context) error {
	return b.phase("connect", "connections", func(p *phase) error {
		p.count = b.fleet.clients()
		begin, limit := time.Now(), b.connectLimit()
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not all are connected after %v", limit))
		defer cancel()
		if err := b.fleet.connect(limited); err != nil {
			return err
		}
		p.took = time.Since(begin)
		if err := b.quiet(ctx); err != nil {
			return err
		}
		p.each = live().each(b.before, p.count)
		return nil
	})
}

// connectLimit returns the time limit for connecting all clients.
func (b *bench) connectLimit() time.Duration {
	return b.options.timeout + time.Duration(b.options.agents)*10*time.Millisecond
}

// create creates the works. Each one is a round trip: the hub's Create, the agent's watch, its
// report, and the hub's informer.
func (b *bench) create(ctx context.Context) error {
	before := live()
	return b.phase("create", "round trips", func(p *phase) error {
		if err := b.run(ctx, newLoad(workPrefix, b.options.works, b.fleet.create), p); err != nil {
			return err
		}
		if err := b.quiet(ctx); err != nil {
			return err
		}
		p.each = live().each(before, b.options.works)
		return nil
	})
}

// paced makes round trips at a rate below the limit, to measure the latency without queues.
func (b *bench) paced(ctx context.Context) error {
	rate := b.options.rate
	if rate == 0 {
		rate = b.phases[len(b.phases)-1].perSecond() / 2 // the last phase is the creation
	}
	return b.trips(ctx, "paced", rate, b.options.duration)
}

// probe makes a few round trips during a resync.
func (b *bench) probe(ctx context.Context) error {
	lasts := min(probeTime, b.options.duration)
	timer := time.AfterFunc(lasts/3, b.fleet.resync)
	defer timer.Stop()
	return b.trips(ctx, "probe", probesPerSecond, lasts)
}

// trips creates works at a rate, and deletes them after the phase.
func (b *bench) trips(ctx context.Context, name string, rate float64, lasts time.Duration) error {
	l := newLoad(name+"-", max(1, int(rate*lasts.Seconds())), b.fleet.create)
	l.perSecond = rate
	if err := b.phase(name, "round trips", func(p *phase) error { return b.run(ctx, l, p) }); err != nil {
		return err
	}
	return b.clean(ctx, l)
}

// update changes each work once.
func (b *bench) update(ctx context.Context) error { return b.updateSome(ctx, b.options.works) }

// updateSome changes the first n works once.
func (b *bench) updateSome(ctx context.Context, n int) error {
	return b.phase("update", "round trips", func(p *phase) error {
		return b.run(ctx, newLoad(workPrefix, n, b.fleet.update), p)
	})
}

// resync measures a resync without differences.
func (b *bench) resync(ctx context.Context) error {
	return b.phase("resync", "unchanged works", func(p *phase) error {
		begin := time.Now()
		b.fleet.resync()
		if err := b.listed(ctx); err != nil {
			return err
		}
		p.count, p.took = b.options.works, max(0, b.fleet.meter.lastEvent().Sub(begin))
		return nil
	})
}

// reconnect restarts the broker, and creates a work in the meantime.
func (b *bench) reconnect(ctx context.Context) error {
	l := newLoad("reconnect-", 1, b.fleet.create)
	err := b.phase("reconnect", "connections", func(p *phase) error {
		b.fleet.load.Store(l)
		return b.outage(ctx, p, func() error { return l.run(ctx, b.options.timeout) })
	})
	if err != nil {
		return err
	}
	return b.clean(ctx, l)
}

// outage restarts the broker, and calls first in the meantime. If the run did not start the broker,
// it cuts all connections instead.
func (b *bench) outage(ctx context.Context, p *phase, first func() error) error {
	p.count = b.fleet.clients()
	connects := b.fleet.meter.connects.Load() + int64(p.count)
	if b.broker == nil {
		b.fleet.cut()
	} else {
		b.broker.kill()
	}
	ended := make(chan error, 1)
	go func() { ended <- first() }()
	if b.broker != nil {
		if err := pause(ctx, outage); err != nil {
			return err
		}
		if err := b.broker.start(); err != nil {
			return err
		}
	}
	begin := time.Now()
	p.wire = wireBytes{} // the closed connections have no counters
	if err := <-ended; err != nil {
		return err
	}
	if b.fleet.source != nil {
		p.fact("the first work was reported after", time.Since(begin))
	}
	if err := b.reconnected(ctx, connects, begin); err != nil {
		return err
	}
	p.took = time.Since(begin)
	if err := b.listed(ctx); err != nil {
		return err
	}
	p.fact("all agents were in sync after", b.fleet.meter.lastEvent().Sub(begin))
	return nil
}

// reconnected waits for a number of connections since the start, and until all clients are
// connected.
func (b *bench) reconnected(ctx context.Context, connects int64, begin time.Time) error {
	for b.fleet.meter.connects.Load() < connects || b.fleet.connected() < b.fleet.clients() {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		if waited := time.Since(begin); waited > b.connectLimit() {
			return fmt.Errorf("%d of %d are connected again after %v", b.fleet.connected(), b.fleet.clients(), waited)
		}
	}
	return nil
}

// remove deletes the works.
func (b *bench) remove(ctx context.Context) error {
	return b.phase("delete", "works", func(p *phase) error {
		return b.run(ctx, b.deleting(workPrefix, b.options.works), p)
	})
}

// clean deletes the works of a load.
func (b *bench) clean(ctx context.Context, created *load) error {
	if err := b.run(ctx, b.deleting(created.prefix, len(created.began)), &phase{}); err != nil {
		return err
	}
	return b.quiet(ctx)
}

func (b *bench) deleting(prefix string, n int) *load {
	l := newLoad(prefix, n, b.fleet.remove)
	l.deletes = true
	return l
}

// run runs a load.
func (b *bench) run(ctx context.Context, l *load, p *phase) error {
	begin := time.Now()
	b.fleet.load.Store(l)
	if err := l.run(ctx, b.options.timeout); err != nil {
		return err
	}
	b.fleet.load.Store(nil)
	p.count, p.took, p.latency = len(l.began), time.Since(begin), quantiles(l.latency)
	return nil
}

// listed waits until there is a list for each agent with works in this phase, and then for the end of
// the events.
func (b *bench) listed(ctx context.Context) error {
	begin, want := time.Now(), min(b.options.agents, b.options.works)
	for b.fleet.meter.lists() < want {
		if err := pause(ctx, quietFor/10); err != nil {
			return err
		}
		if waited := time.Since(begin); waited > b.connectLimit() {
			return fmt.Errorf("%d of %d agents have sent lists after %v", b.fleet.meter.lists(), want, waited)
		}
	}
	return b.quiet(ctx)
}

// quiet waits until no event was published or received for quietFor since its call, except for
// heartbeats.
func (b *bench) quiet(ctx context.Context) error {
	begin := time.Now()
	for {
		last := b.fleet.meter.lastEvent()
		if last.Before(begin) {
			last = begin
		}
		rest := quietFor - time.Since(last)
		if rest <= 0 {
			return nil
		}
		if err := pause(ctx, rest); err != nil {
			return err
		}
	}
}
