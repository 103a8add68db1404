// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
)

// TestHubInMemory checks the phases of a hub process without a durable store, over TLS.
func TestHubInMemory(t *testing.T) {
	runHubs(t, []string{"--tls", "--store", "memory"}, "connect", "reconnect")
}

// TestHubRestarts checks that a hub process on a file continues after a crash.
func TestHubRestarts(t *testing.T) {
	runHubs(t, []string{"--store", filepath.Join(t.TempDir(), "works.db")}, "connect", "reconnect", "restart")
}

// TestHubServes checks the same of a hub process with its own gRPC server, over TLS.
func TestHubServes(t *testing.T) {
	store := filepath.Join(t.TempDir(), "works.db")
	runHubs(t, []string{"--broker", "grpc", "--tls", "--store", store}, "connect", "reconnect", "restart")
}

// TestHubTakeover checks that a second hub process on PostgreSQL continues after a crash of the
// first.
func TestHubTakeover(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	runHubs(t, []string{"--store", server.Database(t)}, "connect", "reconnect", "restart", "takeover")
}

// TestHubTakeoverInEtcd checks the same on etcd.
func TestHubTakeoverInEtcd(t *testing.T) {
	client, peer := daemon.FreeAddr(t).String(), "http://"+daemon.FreeAddr(t).String()
	etcd, err := daemon.Start(kube.Program(t, "etcd"), "--data-dir="+t.TempDir(), "--log-level=error",
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	if err != nil {
		t.Fatal(err)
	}
	etcd.StopAfter(t, "etcd")
	runHubs(t, []string{"--store", "etcd://" + client}, "connect", "reconnect", "restart", "takeover")
}

// runHubs runs with a store. It checks the phases of the agents' process, and the output of both
// processes.
func runHubs(t *testing.T, args []string, phases ...string) {
	t.Helper()
	installed(t)
	o, err := parse(append(append(args, "--distinct"), small...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var stdout output
	measured, err := measureFleet(t.Context(), o, &stdout)
	text := stdout.text.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names []string
	for _, p := range measured {
		names = append(names, p.name)
		if p.took <= 0 || p.took > time.Minute {
			t.Errorf("%s took %v", p.name, p.took)
		}
	}
	if !slices.Equal(names, phases) {
		t.Errorf("phases %v, want %v", names, phases)
	}
	for _, pattern := range []string{
		`^create     60 round trips in `, `^  spec      60 events, `, `^update     1 round trips in `,
		`^resync     60 unchanged works in `, `^idle       0\.2\d s$`, `^  then      hub: [\d.]+ % of a core$`,
		`^  then      hub: [\d.]+ MiB of live heap, [\d.]+ [KM]iB resident, [\d.]+ m?s of CPU; load average `,
	} {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
			t.Errorf("no %q in:\n%s", pattern, text)
		}
	}
	if got := strings.Count(text, "all agents were in sync after"); got != len(phases)-1 {
		t.Errorf("%d times in sync, want %d:\n%s", got, len(phases)-1, text)
	}
}
