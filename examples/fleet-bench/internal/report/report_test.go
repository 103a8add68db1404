// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
)

func TestText(t *testing.T) {
	r := report.Report{
		Machine: report.Machine{System: "linux/amd64", CPUs: 2, Go: "go1.26"},
		Settings: report.Settings{Broker: "mqtt://b:1", Agents: 1000, Works: 1234567,
			Size: 2048},
		Phases: []report.Phase{{
			Name: "create", Unit: "round trips", Count: 1234567, Seconds: 2.5, PerSecond: 4000.4, CPUMicros: 120.4,
			AllocatedBytes: 3 << 20,
			Latency:        &report.Latency{P50: 0.25, P90: 99.94, P99: 100, P999: 2500, Max: 61000},
			Wire:           &report.Wire{Sent: 5 << 30, Received: 12},
			Events:         map[string]report.Traffic{"spec": {Events: 7, Bytes: 1 << 10, Largest: 1023}, "status": {}},
		}},
		PerAgent: report.Share(measure.Memory{Heap: 100 << 10, Stack: 4 << 10}, 2),
	}
	r.Phases[0].Fact("it was over after", 1500*time.Millisecond)
	want := `fleet-bench: 1,000 agents, 1,234,567 works of 2.0 KiB

  broker   mqtt://b:1
  machine  linux/amd64, 2 processors, go1.26

create     1,234,567 round trips in 2.50 s: 4,000/s, 120 µs of processor and 3.0 MiB allocated each
  latency   p50 0.2 ms   p90 99.9 ms   p99 100 ms   p99.9 2.50 s   max 61.00 s
  wire      5.00 GiB sent, 12 B received
  spec      7 events, 1.0 KiB of data, 1023 B the largest
  then      it was over after 1.50 s
memory
  per agent 50.0 KiB of heap, 2.0 KiB of stack
`
	if diff := cmp.Diff(want, r.Head()+r.Phases[0].Text()+r.Tail()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDraw checks that the drawing of every report is well-formed XML with valid numbers.
func TestDraw(t *testing.T) {
	latency := &report.Latency{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5}
	many := make([]float64, 10_000)
	for i := range many {
		many[i] = float64(i)
	}
	for name, phases := range map[string][]report.Phase{
		"nothing":        nil,
		"only one value": {{Name: "floor", Series: []float64{1}}},
		"no time at all": {{Name: "create", Latency: &report.Latency{}, Series: []float64{0, 0}, StepSeconds: 0.1}},
		"all the same": {{Name: "paced", Latency: &report.Latency{P50: 1, P90: 1, P99: 1, P999: 1, Max: 1},
			Series: []float64{5, 5}, StepSeconds: 0.1}},
		"much": {{Name: "create", Latency: latency, Series: many, StepSeconds: 0.1},
			{Name: "update", Latency: latency}},
		"an unknown part": {{Name: "other", Latency: latency}},
	} {
		t.Run(name, func(t *testing.T) {
			r := report.Report{Machine: report.Machine{System: `<&">`}, Phases: phases}
			var b strings.Builder
			if err := report.Draw(&b, &r); err != nil {
				t.Fatal(err)
			}
			for decoder := xml.NewDecoder(strings.NewReader(b.String())); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in\n%s", err, b.String())
				}
			}
			for _, bad := range []string{"NaN", "Inf", "%!"} {
				if strings.Contains(b.String(), bad) {
					t.Errorf("%s in\n%s", bad, b.String())
				}
			}
		})
	}
}
