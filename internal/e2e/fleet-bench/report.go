// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"
)

// phase has the measurements of one part of a run.
type phase struct {
	name, unit string // of the counted operations
	count      int
	took       time.Duration
	// latency has the quantiles of the times from a call to the event of the hub's informer. In the
	// paced phase, a time starts when the call was due.
	latency []time.Duration
	wire    wireBytes          // of all connections of this process
	events  map[string]traffic // the published events by kind
	facts   []string           // further times
	each    *memory            // of each agent or work
}

// fact adds a time.
func (p *phase) fact(name string, d time.Duration) {
	p.facts = append(p.facts, fmt.Sprintf("%s %s", name, short(d)))
}

// head returns the text before the first phase.
func head(o options) string {
	store := ""
	if o.store != "" {
		store = "\n  store    " + storeKind(o.store) // without its password
	}
	return fmt.Sprintf("fleet-bench: %d agents, %d works of %s\n\n  broker   %s%s\n"+
		"  machine  %s/%s, %d processors, %s, load average %s\n\n", o.agents, o.works, size(o.size), o.broker, store,
		runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version(), loadAverage())
}

// text returns the text of a phase.
func (p *phase) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if p.count == 0 {
		fmt.Fprintf(&b, "%-10s %.2f s\n", p.name, p.took.Seconds())
	} else {
		fmt.Fprintf(&b, "%-10s %d %s in %.2f s: %.0f/s\n", p.name, p.count, p.unit, p.took.Seconds(), p.perSecond())
	}
	if l := p.latency; l != nil {
		line("latency", "p50 %s   p90 %s   p99 %s   p99.9 %s   max %s", short(l[0]), short(l[1]), short(l[2]), short(l[3]),
			short(l[4]))
	}
	if p.wire != (wireBytes{}) {
		line("wire", "%s sent, %s received", size(p.wire.sent), size(p.wire.received))
	}
	for _, kind := range kinds {
		if e := p.events[kind]; e.events > 0 {
			line(kind, "%d events, %s of data, %s the largest", e.events, size(e.bytes), size(e.largest))
		}
	}
	for _, fact := range p.facts {
		line("then", "%s", fact)
	}
	if p.each != nil {
		line("each", "%s of heap, %s of stack", size(p.each.heap), size(p.each.stack))
	}
	return b.String()
}

func (p *phase) perSecond() float64 {
	if p.took <= 0 {
		return 0
	}
	return float64(p.count) / p.took.Seconds()
}

// quantiles sorts at least one duration. It returns those that 50, 90, 99, 99.9 and 100 % of all do
// not exceed.
func quantiles(all []time.Duration) []time.Duration {
	slices.Sort(all)
	var found []time.Duration
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		found = append(found, all[int(math.Ceil(q*float64(len(all))))-1])
	}
	return found
}

// short formats a duration.
func short(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// size formats a number of bytes.
func size(bytes int) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
}
