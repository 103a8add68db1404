// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Head returns the text before the first phase.
func (r *Report) Head() string {
	s := r.Settings
	agents := "agents"
	if s.Light {
		agents = "agents without informers"
	}
	return fmt.Sprintf("fleet-bench: %s %s, %s works of %s\n\n  broker   %s\n  machine  %s, %d processors, %s\n\n",
		count(int64(s.Agents)), agents, count(int64(s.Works)), size(int64(s.Size)), s.Broker, r.Machine.System,
		r.Machine.CPUs, r.Machine.Go)
}

// Text returns the text of a phase.
func (p *Phase) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %s %s in %.2f s: %s/s", p.Name, count(p.Count), p.Unit, p.Seconds, count(int64(p.PerSecond)))
	if p.CPUMicros > 0 {
		fmt.Fprintf(&b, ", %.0f µs of processor and %s allocated each", p.CPUMicros, size(p.AllocatedBytes))
	}
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if l := p.Latency; l != nil {
		line("latency", "p50 %s   p90 %s   p99 %s   p99.9 %s   max %s", millis(l.P50), millis(l.P90), millis(l.P99),
			millis(l.P999), millis(l.Max))
	}
	if w := p.Wire; w != nil {
		line("wire", "%s sent, %s received", size(w.Sent), size(w.Received))
	}
	for _, kind := range []string{"spec", "status", "resync", "presence"} {
		if e := p.Events[kind]; e.Events > 0 {
			line(kind, "%s events, %s of data, %s the largest", count(e.Events), size(e.Bytes), size(e.Largest))
		}
	}
	for _, f := range p.Facts {
		line("then", "%s %s", f.Name, millis(f.Seconds*1000))
	}
	return b.String()
}

// Tail returns the text after the last phase.
func (r *Report) Tail() string {
	var b strings.Builder
	each := func(what string, m *Memory) {
		if m != nil {
			fmt.Fprintf(&b, "  %-9s %s of heap, %s of stack\n", what, size(m.Heap), size(m.Stack))
		}
	}
	each("per agent", r.PerAgent)
	each("per work", r.PerWork)
	if b.Len() == 0 {
		return ""
	}
	return "memory\n" + b.String()
}

// count formats a number with groups of digits.
func count(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func size(bytes int64) string {
	switch b := float64(bytes); {
	case b >= 1<<30:
		return fmt.Sprintf("%.2f GiB", b/(1<<30))
	case b >= 1<<20:
		return fmt.Sprintf("%.1f MiB", b/(1<<20))
	case b >= 1<<10:
		return fmt.Sprintf("%.1f KiB", b/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}

func millis(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
