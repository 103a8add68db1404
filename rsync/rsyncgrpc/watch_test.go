// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// collect watches until a context is deleted, and returns the changes with their revisions.
func collect(ctx context.Context, e rsyncgrpc.Engine, id string, from int64) ([]string, error) {
	var out []string
	for change, err := range e.Watch(ctx, id, from) {
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprint(change.Revision, " ", describe(change)))
	}
	return out, nil
}

// events runs n events of a context, and then terminates and deletes it.
func (s *scene) events(id string, n int) {
	s.t.Helper()
	ctx := s.t.Context()
	for range n {
		must[*rsync.Status](s.t)(s.engine.Wait(ctx, must[rsync.EventRef](s.t)(s.engine.Instantiate(ctx, id))))
	}
	must[*rsync.Status](s.t)(s.engine.Wait(ctx, must[rsync.EventRef](s.t)(s.engine.Terminate(ctx, id))))
	check(s.t, s.engine.Delete(ctx, id))
}

// TestWatch: a remote watch returns the same changes as the engine's watch.
func TestWatch(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1", "c2")))
	begin := must[*rsync.Status](t)(s.engine.Status(ctx, "a")).Revision
	s.events("a", 3)
	want := must[[]string](t)(collect(ctx, s.engine, "a", begin+1))
	got := must[[]string](t)(collect(ctx, client, "a", begin+1))
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 || !strings.HasSuffix(got[len(got)-1], "deleted") {
		t.Errorf("-engine +client:\n%s", diff)
	}

	check(t, s.engine.Create(ctx, shop(t, "b", "1", "c1")))
	must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Instantiate(ctx, "b"))))
	for change, err := range client.Watch(ctx, "b", 0) {
		check(t, err)
		if change.Cluster != nil {
			break // the last change of the current state, in the engine's order
		}
	}
	gone, begun := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		for _, err := range client.Watch(ctx, "b", 0) {
			if err != nil {
				gone <- err
				return
			}
			begun <- struct{}{}
		}
		gone <- nil
	}()
	<-begun
	must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Terminate(ctx, "b"))))
	check(t, s.engine.Delete(ctx, "b"))
	check(t, <-gone)
}

// TestWatchOverBrokenConnections: connections are cut many times while a context changes, and each
// change arrives once.
func TestWatchOverBrokenConnections(t *testing.T) {
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	proxy := tcpproxy.Start(t, addr)
	client := dial(t, proxy.Addr(), rsyncgrpc.ClientOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1", "c2", "c3")))
	begin := must[*rsync.Status](t)(s.engine.Status(ctx, "a")).Revision

	var got []string
	done := make(chan error, 1)
	go func() {
		n := 0
		for change, err := range client.Watch(ctx, "a", begin+1) {
			if err != nil {
				done <- err
				return
			}
			got = append(got, fmt.Sprint(change.Revision, " ", describe(change)))
			if n++; n%7 == 0 {
				proxy.Cut()
			}
		}
		done <- nil
	}()
	s.events("a", 20)
	check(t, <-done)
	want := must[[]string](t)(collect(ctx, s.engine, "a", begin+1))
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 100 {
		t.Errorf("%d changes; -engine +client:\n%s", len(got), diff)
	}
}

// TestServerRestarts: a watch and a wait continue while their server stops and starts again,
// gracefully or not.
func TestServerRestarts(t *testing.T) {
	s := newScene(t)
	o := rsyncgrpc.ServerOptions{}
	o.ShutdownTimeout = time.Minute // waits and watches must not use all of it
	addr, stop := serve(t, s.engine, o)
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1")))
	cluster := s.clusters.Cluster("edge", "c1")
	cluster.SetMode(fake.ModeBlackHole)
	ref := must[rsync.EventRef](t)(client.Instantiate(ctx, "a"))

	waited := make(chan error, 1)
	go func() {
		status, err := client.Wait(ctx, ref)
		if err == nil && status.State != rsync.Instantiated {
			err = fmt.Errorf("the state is %s", status.State)
		}
		waited <- err
	}()
	watched := make(chan []string, 1)
	retrying := make(chan struct{})
	go func() {
		var got []string
		for change, err := range client.Watch(ctx, "a", 0) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, fmt.Sprint(change.Revision, " ", describe(change)))
			if change.Cluster != nil && change.Cluster.Phase == rsync.PhaseRetrying {
				close(retrying)
			}
		}
		watched <- got
	}()
	<-retrying
	stop()
	if _, err := client.Status(limitedTo(t, 100*time.Millisecond), "a"); err == nil {
		t.Error("the server is gone and answers")
	}
	cluster.SetMode(fake.ModeWorks)
	must[*rsync.Status](t)(s.engine.Wait(ctx, ref)) // while no server runs
	o.Addr = addr
	_, stop = serve(t, s.engine, o)
	check(t, <-waited)

	// The context is deleted during another restart.
	stop()
	must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Terminate(ctx, "a"))))
	check(t, s.engine.Delete(ctx, "a"))
	serve(t, s.engine, o)
	got := <-watched
	var states []string
	for _, line := range got {
		if _, what, _ := strings.Cut(line, " "); !strings.Contains(what, " ") {
			states = append(states, what)
		}
	}
	want := []string{"Instantiating", "Instantiated", "Terminating", "Terminated", "deleted"}
	if first := slices.Index(states, "Instantiating"); first < 0 || !slices.Equal(states[first:], want) ||
		len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("the watch was told %q", got)
	}
}

// TestSilentNetwork: a client detects a network that drops all packets silently. Watches and waits
// continue on another connection.
func TestSilentNetwork(t *testing.T) {
	t.Parallel() // it waits for gRPC's shortest keep-alive, 10 s
	s := newScene(t)
	addr, _ := serve(t, s.engine, rsyncgrpc.ServerOptions{})
	proxy := tcpproxy.Start(t, addr)
	var dials atomic.Int64
	client := dial(t, addr,
		rsyncgrpc.ClientOptions{KeepAlive: 10 * time.Second, DialOptions: []grpc.DialOption{grpc.WithContextDialer(
			func(ctx context.Context, addr string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					addr = proxy.Addr()
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			})}})
	ctx := limitedTo(t, 2*patience)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1")))
	begin := must[*rsync.Status](t)(s.engine.Status(ctx, "a")).Revision
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeBlackHole)
	ref := must[rsync.EventRef](t)(s.engine.Instantiate(ctx, "a")) // so the first connection is the connection for waits
	waited, watched := make(chan error, 1), make(chan []string, 1)
	began := make(chan struct{}, 100)
	go func() { waited <- err2(client.Wait(ctx, ref)) }()
	go func() {
		var got []string
		for change, err := range client.Watch(ctx, "a", begin+1) {
			got = append(got, fmt.Sprint(change.Revision, " ", describe(change)))
			if err != nil {
				got = append(got, err.Error())
			}
			began <- struct{}{}
		}
		watched <- got
	}()
	<-began
	proxy.Stall() // connections stay open, but transfer nothing
	s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
	must[*rsync.Status](t)(s.engine.Wait(ctx, ref))
	must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Terminate(ctx, "a"))))
	check(t, s.engine.Delete(ctx, "a"))
	// The context and its event are deleted.
	if err := <-waited; !errors.Is(err, rsync.ErrNotFound) {
		t.Errorf("the wait ended with %v", err)
	}
	want := must[[]string](t)(collect(ctx, s.engine, "a", begin+1))
	if diff := cmp.Diff(want, <-watched); diff != "" {
		t.Errorf("-engine +client:\n%s", diff)
	}
}

func limitedTo(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestSlowWatch: a client that does not read uses little memory of the server for a short time. It
// misses nothing when it reads again.
func TestSlowWatch(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newScene(t)
	addr, _ := serve(t, s.engine,
		rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{WatchBuffer: 4, WatchLag: 50 * time.Millisecond,
			MetricsRegisterer: registry}})
	client := dial(t, addr,
		rsyncgrpc.ClientOptions{DialOptions: []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10)}})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1")))
	begin := must[*rsync.Status](t)(s.engine.Status(ctx, "a")).Revision
	must[rsync.EventRef](t)(s.engine.Instantiate(ctx, "a"))

	read := make(chan struct{})
	reading := make(chan struct{})
	done := make(chan []string, 1)
	go func() {
		var got []string
		for change, err := range client.Watch(ctx, "a", begin+1) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			if len(got) == 0 {
				close(reading)
				<-read
			}
			got = append(got, fmt.Sprint(change.Revision, " ", describe(change)))
		}
		done <- got
	}()
	<-reading
	// gRPC itself buffers 64 KiB on both sides for a client that does not read.
	slow := func() float64 { return metric(t, registry, "spokewire_rsync_grpc_slow_watches_total") }
	soon(t, "the watch is ended", func() bool {
		for range 10 {
			key := rsync.IdempotencyKey(rand.Text() + strings.Repeat("k", 200))
			must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Read(ctx, "a", key))))
		}
		return slow() > 0
	})
	if n := metric(t, registry, "spokewire_rsync_grpc_calls_in_flight"); n != 0 {
		t.Errorf("%v calls are in flight, and the client does not read", n)
	}
	close(read)
	s.events("a", 1)
	got := <-done
	want := must[[]string](t)(collect(ctx, s.engine, "a", begin+1))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%d changes, want %d; -engine +client:\n%s", len(got), len(want), diff)
	}
}

// metric returns the sum of a metric's values.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	check(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestMetrics: calls are counted by method and code, and the metrics have the expected names.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newScene(t)
	o := rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{Name: "n", MetricsRegisterer: registry}}
	addr, stop := serve(t, s.engine, o)
	client := dial(t, addr, rsyncgrpc.ClientOptions{})
	check(t, client.Create(t.Context(), shop(t, "a", "1")))
	if _, err := client.Status(t.Context(), "none"); !errors.Is(err, rsync.ErrNotFound) {
		t.Error(err)
	}
	metertest.Expect(t, registry, map[string]float64{
		"spokewire_rsync_grpc_calls_total code=NotFound method=GetStatus name=n": 1,
		"spokewire_rsync_grpc_calls_total code=OK method=Create name=n":          1,
		"spokewire_rsync_grpc_call_seconds_count method=Create name=n":           1,
		"spokewire_rsync_grpc_calls_in_flight method=Create name=n":              0,
	})
	metertest.Lint(t, registry)
	second, err := rsyncgrpc.NewServer(s.engine, rsyncgrpc.ServerOptions{Options: o.Options, Addr: "127.0.0.1:0",
		Insecure: true})
	check(t, err)
	if err := second.Start(t.Context()); !errors.Is(err, rsync.ErrInvalidInput) || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("two servers of one name: %v", err)
	}
	stop()
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("after the end: %v, %v", families, err)
	}
}
