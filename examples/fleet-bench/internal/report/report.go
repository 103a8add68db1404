// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package report has the results of a run: as text, as JSON and as a drawing.
package report

import (
	"time"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
)

// Report has the results of a run.
type Report struct {
	Machine  Machine
	Settings Settings
	Phases   []Phase
	// PerAgent is the memory of one connected agent, with its informer unless it is light. PerWork
	// is the memory of one work in the caches of source and agent and in both informers.
	PerAgent *Memory
	PerWork  *Memory
}

// Machine describes the machine of the run.
type Machine struct {
	System string
	CPUs   int
	Go     string
}

// Settings are the options of the run.
type Settings struct {
	Broker string
	Agents int
	Works  int
	Size   int
	Light  bool
}

// Memory is an amount of memory in bytes.
type Memory struct {
	Heap  int64
	Stack int64
}

// Share returns an nth of a total.
func Share(total measure.Memory, n int) *Memory {
	return &Memory{Heap: total.Heap / int64(max(n, 1)), Stack: total.Stack / int64(max(n, 1))}
}

// Phase is one part of a run.
type Phase struct {
	Name string
	// Unit is the name of the counted operations.
	Unit      string
	Count     int64
	Seconds   float64
	PerSecond float64
	// Latency is the time from the call to the event in the hub's informer. In the paced phase, it
	// starts when the call was due.
	Latency *Latency
	// Wire is the traffic of all connections of this process.
	Wire *Wire
	// Events are the published events by kind.
	Events map[string]Traffic
	// CPUMicros is the processor time of this process, without the broker, for each of Count.
	// AllocatedBytes is the allocated memory for each of Count.
	CPUMicros      float64
	AllocatedBytes int64
	// Facts are further times.
	Facts []Fact
	// Series is the rate in each step of StepSeconds.
	Series      []float64
	StepSeconds float64
}

// Fact adds a time.
func (p *Phase) Fact(name string, d time.Duration) {
	p.Facts = append(p.Facts, Fact{Name: name, Seconds: d.Seconds()})
}

// Fact is a named time.
type Fact struct {
	Name    string
	Seconds float64
}

// Latency has percentiles in milliseconds.
type Latency struct {
	P50  float64
	P90  float64
	P99  float64
	P999 float64
	Max  float64
}

// LatencyOf returns the percentiles of a histogram.
func LatencyOf(h *measure.Histogram) *Latency {
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &Latency{
		P50: millis(h.Quantile(0.5)), P90: millis(h.Quantile(0.9)), P99: millis(h.Quantile(0.99)),
		P999: millis(h.Quantile(0.999)), Max: millis(h.Max()),
	}
}

// Wire is the traffic on the wire in bytes.
type Wire struct {
	Sent     int64
	Received int64
}

// Traffic has the numbers of the events of one kind.
type Traffic struct {
	Events  int64
	Bytes   int64
	Largest int64
}

// Phase returns the phase with a name, or nil.
func (r *Report) Phase(name string) *Phase {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	return nil
}
