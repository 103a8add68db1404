// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())                 // as main does
	if len(os.Args) > 1 && os.Args[1] == "--hub" { // a hub process of a test
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

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

// TestRun checks that each phase of a run on its own broker counts the requested operations. A source
// with a gRPC server in its process has no connection.
func TestRun(t *testing.T) {
	installed(t)
	t.Run("mosquitto", func(t *testing.T) { runOwn(t, 4) })
	t.Run("grpc", func(t *testing.T) { runOwn(t, 3, "--broker", "grpc") })
	t.Run("grpc with TLS", func(t *testing.T) { runOwn(t, 3, "--broker", "grpc", "--tls") })
}

func runOwn(t *testing.T, connections int, args ...string) {
	o, err := parse(append(args, small...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var stdout output
	phases, err := measureFleet(t.Context(), o, &stdout)
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout.text.String())
	}
	counts := map[string]int{"connect": connections, "create": 60, "paced": 20, "update": 60, "resync": 60,
		"probe": 20, "reconnect": connections, "delete": 60}
	if len(phases) != len(counts) {
		t.Errorf("%d phases, want %d", len(phases), len(counts))
	}
	for i := range phases {
		plausible(t, &phases[i], counts[phases[i].name])
	}
	events(t, phases)
	if m := phases[0].each; m == nil || m.heap < 1<<10 || m.heap > 10<<20 || m.stack > 10<<20 {
		t.Errorf("memory per agent: %+v", m)
	}
	if m := phases[1].each; m == nil || m.heap < 1<<10 || m.heap > 1<<20 {
		t.Errorf("memory per work: %+v", m)
	}
}

// plausible checks the values of a phase that are valid for every phase.
func plausible(t *testing.T, p *phase, count int) {
	t.Helper()
	if p.count != count || p.took <= 0 || p.took > time.Minute {
		t.Errorf("%s: %d in %v, want %d", p.name, p.count, p.took, count)
	}
	if l := p.latency; len(l) > 0 && (l[0] <= 0 || !slices.IsSorted(l) || l[len(l)-1] >= 20*time.Second) {
		t.Errorf("%s: latency %v", p.name, l)
	}
	if w := p.wire; w != (wireBytes{}) && (w.sent <= 0 || w.received <= 0) {
		t.Errorf("%s: wire %+v", p.name, w)
	}
}

// events checks the number of events: one for each work and one for its status, and none in the
// resync phase.
func events(t *testing.T, phases []phase) {
	t.Helper()
	wants := map[string]int{"create": 60, "update": 60, "delete": 60, "resync": 0}
	for _, p := range phases {
		want, ok := wants[p.name]
		for _, kind := range []string{"spec", "status"} {
			got := p.events[kind]
			if ok && got.events != want || p.name == "create" && got.bytes < want*300 {
				t.Errorf("%s: %s %+v, want %d", p.name, kind, got, want)
			}
		}
		if got := p.events["resync"]; p.name == "resync" && (got.events < 4 || got.largest > 128<<10) {
			t.Errorf("resync: %+v", got)
		}
		if w := p.wire; p.name == "create" && w != (wireBytes{}) && w.sent < 60*(1024+300) {
			t.Errorf("create: %d bytes sent for 60 works of 1 KiB", w.sent)
		}
	}
}

// TestRunElsewhere checks a run on an existing broker.
func TestRunElsewhere(t *testing.T) {
	b := mosquitto.Start(t, mosquitto.Options{})
	var stdout, stderr output
	if status := run(t.Context(), append([]string{"--broker", b.URL()}, small...), &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, stdout.text.String(), stderr.text.String())
	}
	rest := stdout.text.String()
	for _, pattern := range []string{
		`^fleet-bench: 3 agents, 60 works of 1\.0 KiB$`, `^  broker   ` + regexp.QuoteMeta(b.URL()) + `$`,
		`^connect    4 connections in [\d.]+ s: \d+/s$`, `^  each      [\d.]+ KiB of heap, [\d.]+ KiB of stack$`,
		`^create     60 round trips in `, `^  latency   p50 [\d.]+ m?s   p90 `,
		`^  spec      60 events, [\d.]+ KiB of data, [\d.]+ KiB the largest$`, `^  each      [\d.]+ KiB of heap, `,
		`^paced      20 round trips in `, `^update `, `^resync `, `^probe `, `^reconnect  4 connections in `,
		`^  then      the first work was reported after [\d.]+ m?s$`, `^  then      all agents were in sync after `,
		`^delete     60 works in `,
	} {
		at := regexp.MustCompile("(?m)" + pattern).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q where it should be in:\n%s", pattern, stdout.text.String())
		}
		rest = rest[at[1]:]
	}
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		args   string
		status int
		want   []string
	}{
		{"now", 2, []string{`unknown argument "now"`, "--help"}},
		{"--no-such-flag", 2, []string{"-no-such-flag", "Usage: go run"}},
		{"--agents 0", 2, []string{"--agents must be from 1 to 60000, not 0"}},
		{"--agents many", 2, []string{"-agents"}},
		{"--works -1", 2, []string{"--works must be from 1 to"}},
		{"--size 2000000", 2, []string{"--size must be from 1 to 1048576"}},
		{"--rate -1", 2, []string{"--rate must be from 0"}},
		{"--rate NaN", 2, []string{"--rate must be from 0"}},
		{"--duration 1ms", 2, []string{"--duration must be from 100ms"}},
		{"--store redis://", 2, []string{`--store must be memory, a file, postgres://... or etcd://..., not "redis://"`}},
		{"--store /nowhere/works.db --works 1", 1, []string{"/nowhere", "hub: start: the process has ended"}},
		{"--tls --broker mqtt://broker:1883", 2, []string{"--tls is for a new Mosquitto"}},
		{"--broker grpc --store postgres://db", 2, []string{"--broker grpc has one hub"}},
		{"--timeout 0s", 2, []string{"--timeout must be at least 1s"}},
		{"--broker broker:1883", 2, []string{"-broker: ", "scheme"}},
		{"--broker=", 2, []string{"-broker: ", "BrokerURL"}},
		{"--help", 0, []string{"-broker URL", "512 operations", "-works"}},
		{"--broker mqtt://127.0.0.1:1 --timeout 1s --agents 100", 1, []string{"not all are connected after 2s", "refused"}},
		{"--broker mqtt://127.0.0.1:1 --timeout 1s --agents 1", 1, []string{"not all are connected after 1.01s", "refused"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr output
			if status := run(t.Context(), strings.Fields(tt.args), &stdout, &stderr); status != tt.status {
				t.Errorf("exit status %d, want %d\n%s", status, tt.status, stdout.text.String())
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr.text.String(), want) {
					t.Errorf("%q lacks %q", stderr.text.String(), want)
				}
			}
		})
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
