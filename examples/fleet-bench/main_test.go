// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/report"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small has the arguments of a short run.
var small = []string{"--agents", "3", "--works", "60", "--duration", "200ms", "--rate", "100", "--timeout", "20s"}

// output collects the written text. It calls a function when the text first contains mark.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	mark string
	then func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.then != nil && bytes.Contains(p, []byte(o.mark)) {
		o.then()
		o.then = nil
	}
	return o.text.Write(p)
}

// installed skips the test if the Mosquitto program is not installed.
func installed(t *testing.T) { mosquitto.Start(t, mosquitto.Options{}).Stop() }

// TestRun checks that each phase of a run on its own broker counts the requested operations.
func TestRun(t *testing.T) {
	installed(t)
	drawing := filepath.Join(t.TempDir(), "fleet.svg")
	if err := os.WriteFile(drawing, bytes.Repeat([]byte("an earlier drawing"), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse(append([]string{"--floor", "--svg", drawing}, small...))
	if err != nil {
		t.Fatal(err)
	}
	var stdout output
	r, err := fleetBench(t.Context(), o, &stdout)
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout.text.String())
	}
	counts := map[string]int64{"floor": 60, "connect": 4, "create": 60, "paced": 20, "update": 60, "resync": 60,
		"probe": 20, "reconnect": 4, "delete": 60}
	if len(r.Phases) != len(counts) {
		t.Errorf("%d phases, want %d", len(r.Phases), len(counts))
	}
	for name, want := range counts {
		p := r.Phase(name)
		if p == nil {
			t.Errorf("no phase %s", name)
			continue
		}
		plausible(t, p, want)
	}
	events(t, r)
	if m := r.PerAgent; m == nil || m.Heap < 1<<10 || m.Heap > 10<<20 || m.Stack < 1<<10 || m.Stack > 10<<20 {
		t.Errorf("memory per agent: %+v", m)
	}
	if m := r.PerWork; m == nil || m.Heap < 1<<10 || m.Heap > 1<<20 {
		t.Errorf("memory per work: %+v", m)
	}
	wellFormed(t, drawing)
}

// plausible checks the values of a phase that are valid for every phase.
func plausible(t *testing.T, p *report.Phase, count int64) {
	t.Helper()
	if p.Count != count || p.Seconds < 0 || p.Seconds > 60 {
		t.Errorf("%s: %d in %v s, want %d", p.Name, p.Count, p.Seconds, count)
	}
	if l := p.Latency; l != nil && !(l.P50 > 0 && l.P50 <= l.P90 && l.P90 <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max &&
		l.Max < 20_000) {
		t.Errorf("%s: latency %+v", p.Name, *l)
	}
	if w := p.Wire; w != nil && (w.Sent <= 0 || w.Received <= 0) {
		t.Errorf("%s: wire %+v", p.Name, *w)
	}
}

// events checks the number of events: one for each work and one for its status, and none in the
// resync phase.
func events(t *testing.T, r *report.Report) {
	t.Helper()
	for name, want := range map[string]int64{"create": 60, "update": 60, "delete": 60, "resync": 0} {
		for _, kind := range []string{"spec", "status"} {
			if got := r.Phase(name).Events[kind]; got.Events != want || want > 0 && name == "create" && got.Bytes < want*300 {
				t.Errorf("%s: %s %+v, want %d", name, kind, got, want)
			}
		}
	}
	if got := r.Phase("resync").Events["resync"]; got.Events < 4 || got.Largest > 128<<10 {
		t.Errorf("resync: %+v", got)
	}
	if w := r.Phase("create").Wire; w != nil && w.Sent < 60*(1024+300) {
		t.Errorf("create: %d bytes sent for 60 works of 1 KiB", w.Sent)
	}
}

func wellFormed(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(content)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, content)
		}
	}
	for _, want := range []string{"<svg ", "floor", "paced", "60 works of 1.0 KiB on 3 agents",
		"prefers-color-scheme: dark"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
}

// TestRunElsewhere checks a run on an existing broker with agents without informers.
func TestRunElsewhere(t *testing.T) {
	b := mosquitto.Start(t, mosquitto.Options{})
	var stdout, stderr output
	args := append([]string{"--broker", b.URL(), "--light", "--floor"}, small...)
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	rest := stdout.text.String()
	for _, pattern := range []string{
		`^fleet-bench: 3 agents without informers, 60 works of 1\.0 KiB$`,
		`^  broker   ` + regexp.QuoteMeta(b.URL()) + `$`,
		`^floor      60 plain echoes in [\d.]+ s: [\d,]+/s`, `^connect    4 connections in `,
		`^create     60 round trips in `,
		`^  latency   p50 [\d.]+ m?s   p90 `, `^paced      20 round trips in `, `^update `, `^resync `, `^probe `,
		`^reconnect  4 connections in `, `^  then      the first work was reported after [\d.]+ m?s$`,
		`^delete     60 works in `, `^memory$`, `^  per agent [\d.]+ KiB of heap, `, `^  per work `,
	} {
		at := regexp.MustCompile("(?m)" + pattern).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q where it should be in:\n%s", pattern, stdout.text.String())
		}
		rest = rest[at[1]:]
	}
}

func TestFailures(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "file")
	for _, tt := range []struct {
		reason string
		args   []string
		status int
		want   []string
	}{
		{"an unknown argument", []string{"now"}, 2, []string{`unknown argument "now"`, "--help"}},
		{"no broker's address", []string{"--broker", "broker:1883"}, 2, []string{"--broker: ", "scheme", "--help"}},
		{"nobody there for any of many", []string{"--broker", "mqtt://127.0.0.1:1", "--timeout", "1s", "--agents", "100"}, 1,
			[]string{"not all are connected after 2s", "refused"}},
		{"nobody at the address", []string{"--broker", "mqtt://127.0.0.1:1", "--timeout", "1s", "--agents", "1"}, 1,
			[]string{"not all are connected after 1.01s", "refused"}},
		{"no floor on such a connection", []string{"--broker", "mqtts://127.0.0.1:1", "--floor"}, 1,
			[]string{"the floor is measured over mqtt:// only"}},
		{"nobody at the address for the floor", []string{"--broker", "mqtt://127.0.0.1:1", "--floor"}, 1,
			[]string{"refused"}},
		{"no place for the drawing", []string{"--svg", missing}, 1, []string{missing}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var stdout, stderr output
			if status := run(t.Context(), tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d\n%s", status, tt.status, stdout.text.String())
			}
			for _, want := range append(tt.want, "fleet-bench: ") {
				if !strings.Contains(stderr.text.String(), want) {
					t.Errorf("%q lacks %q", stderr.text.String(), want)
				}
			}
		})
	}
}

// TestDrawingStays checks that a failed run keeps an earlier drawing unchanged, and otherwise
// creates no file.
func TestDrawingStays(t *testing.T) {
	earlier, none := filepath.Join(t.TempDir(), "earlier.svg"), filepath.Join(t.TempDir(), "none.svg")
	if err := os.WriteFile(earlier, []byte("a drawing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{earlier, none} {
		args := []string{"--broker", "mqtt://127.0.0.1:1", "--timeout", "1s", "--agents", "1", "--svg", file}
		var stdout, stderr output
		if status := run(t.Context(), args, &stdout, &stderr); status != 1 {
			t.Errorf("exit status %d, want 1\n%s", status, stderr.text.String())
		}
	}
	if content, err := os.ReadFile(earlier); string(content) != "a drawing" {
		t.Errorf("the earlier drawing is %q now, %v", content, err)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file without a drawing: %v", err)
	}
}

// TestInterrupt checks that an interrupted run prints the phases that have ended.
func TestInterrupt(t *testing.T) {
	installed(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	var stderr output
	stdout := output{mark: "connect ", then: func() { cancel(errors.New("interrupt signal received")) }}
	if status := run(ctx, small, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if got := stderr.text.String(); got != "fleet-bench: interrupt signal received\n" {
		t.Errorf("standard error: %q", got)
	}
	if text := stdout.text.String(); !strings.Contains(text, "connect    4 connections") ||
		strings.Contains(text, "delete") {
		t.Errorf("standard output:\n%s", text)
	}
}
