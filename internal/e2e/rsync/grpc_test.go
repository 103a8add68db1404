// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// serveReplica starts an engine on etcd and its server. It returns the address and a function that
// ends both.
func serveReplica(t *testing.T, etcd *cluster, clusters *fake.Clusters) (string, func()) {
	t.Helper()
	engine, err := rsync.New(etcd.store(t, "/grpc"), clusters, rsync.Options{LeaseTTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	server, err := rsyncgrpc.NewServer(engine, rsyncgrpc.ServerOptions{Addr: "127.0.0.1:0", Insecure: true,
		ShutdownTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- engine.Start(ctx) }()
	go func() { ended <- server.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(stop)
	select {
	case <-server.Ready():
	case err := <-ended:
		ended <- err // for stop, which waits for both
		t.Fatal(err)
	}
	return server.Addr().String(), stop
}

// TestGRPCReplicas: two engines on one etcd, each with a server, end and restart in turn, while a
// client queues events, waits for them and watches. Each event is queued once and done, and the
// watch has each change once.
func TestGRPCReplicas(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, 1)
	clusters := fake.New()
	var proxies [2]*tcpproxy.Proxy
	var stop [2]func()
	var addresses []resolver.Address
	for i := range proxies {
		var addr string
		addr, stop[i] = serveReplica(t, etcd, clusters)
		proxies[i] = tcpproxy.Start(t, addr)
		addresses = append(addresses, resolver.Address{Addr: proxies[i].Addr()})
	}
	both := manual.NewBuilderWithScheme("both")
	both.InitialState(resolver.State{Addresses: addresses})
	client, err := rsyncgrpc.NewClient("both:///", rsyncgrpc.ClientOptions{
		Insecure: true, DialOptions: []grpc.DialOption{grpc.WithResolvers(both)},
		Backoff: rsync.Backoff{Base: 10 * time.Millisecond, Max: 200 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	b := appcontext.NewBuilder("shop")
	for i := range 3 {
		b.App("web").Resource("edge", fmt.Sprint("c", i),
			[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}"))
	}
	shop, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Create(ctx, shop); err != nil {
		t.Fatal(err)
	}
	created, err := client.Status(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan []string, 1)
	go func() { watched <- linesOf(ctx, client, created.Revision+1) }()
	for i := range 12 {
		n, stopped := i/3%2, make(chan struct{})
		go func() {
			defer close(stopped)
			if i%3 == 2 {
				stop[n]() // while the event is queued or waited for
			}
		}()
		ref, err := client.Instantiate(ctx, "shop")
		if err != nil || ref.Seq != uint64(i+1) {
			t.Fatalf("call %d queued %+v, %v", i+1, ref, err)
		}
		if status, err := client.Wait(ctx, ref); err != nil || status.State != rsync.Instantiated {
			t.Fatalf("event %d: %+v, %v", ref.Seq, status, err)
		}
		if <-stopped; i%3 == 2 {
			var addr string
			addr, stop[n] = serveReplica(t, etcd, clusters)
			proxies[n].Forward(addr)
		}
	}
	ref, err := client.Terminate(ctx, "shop")
	if err == nil {
		_, err = client.Wait(ctx, ref)
	}
	if err == nil {
		err = client.Delete(ctx, "shop")
	}
	if err != nil {
		t.Fatal(err)
	}
	got := <-watched
	reader, err := rsync.New(etcd.store(t, "/grpc"), clusters, rsync.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := linesOf(ctx, reader, created.Revision+1); !slices.Equal(got, want) || len(got) < 12*6 {
		t.Errorf("the client's watch has %d changes, the store's %d:\n%s\n\n%s", len(got), len(want), strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// linesOf collects the changes of a watch until the context is deleted.
func linesOf(ctx context.Context, e rsyncgrpc.Engine, from int64) []string {
	var out []string
	for change, err := range e.Watch(ctx, "shop", from) {
		line := fmt.Sprint(change.Revision, change.State, change.Deleted, err)
		if change.Element != nil {
			line += fmt.Sprint(" ", change.Element.Seq, change.Element.Status)
		}
		if change.Cluster != nil {
			line += fmt.Sprint(" ", change.Cluster.Cluster, change.Cluster.Seq, change.Cluster.Phase)
		}
		out = append(out, line)
	}
	return out
}

// TestExampleOnEtcd: the program of examples/rsync stores everything in etcd, and reads it from
// there after a restart.
func TestExampleOnEtcd(t *testing.T) {
	t.Parallel()
	testExample(t, "etcd://"+startEtcd(t, 1).addresses()[0])
}

// TestExampleOnPostgreSQL is TestExampleOnEtcd with PostgreSQL.
func TestExampleOnPostgreSQL(t *testing.T) {
	t.Parallel()
	testExample(t, startPostgres(t).connString)
}

func testExample(t *testing.T, store string) {
	t.Helper()
	program := e2etest.Program(t, "rsync", true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	serve := func() (string, func()) {
		cmd := exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--fake", "2", "--store",
			store)
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(log).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, address, _ := strings.Cut(line, "address=")
		address, _, _ = strings.Cut(address, " ")
		return address, func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	call := func(want string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil ||
			!strings.Contains(string(out), want) {
			t.Errorf("%q: %v, want %q:\n%s", args, err, want, out)
		}
	}
	addr, kill := serve()
	call("created with 1 apps on 1 clusters", "create", "--server", addr, "--cluster", "fake+cluster1", "shop",
		"../../../examples/rsync/manifests/v1/web")
	call("shop: Instantiated", "instantiate", "--server", addr, "shop")
	kill()
	addr, kill = serve()
	defer kill()
	call("Instantiated", "list", "--server", addr)
	call("shop: Terminated", "terminate", "--server", addr, "shop")
}
