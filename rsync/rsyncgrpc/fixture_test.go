// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/background"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits waits on real sockets.
const patience = 2 * time.Minute

// scene is an engine with an in-memory store and in-memory clusters. Servers can start and stop.
type scene struct {
	t        *testing.T
	store    *memstore.Store
	clusters *fake.Clusters
	engine   *rsync.Engine
}

// newScene starts an engine.
func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneWith(t, rsync.Options{})
}

func newSceneWith(t *testing.T, options rsync.Options) *scene {
	t.Helper()
	s := &scene{t: t, store: memstore.New(memstore.Options{}), clusters: fake.New()}
	engine, err := rsync.New(s.store, s.clusters, options)
	if err != nil {
		t.Fatal(err)
	}
	s.engine = engine
	background.Run(t, engine.Start)
	return s
}

// serve starts a server, and returns its address and a function that stops it. Without an address,
// the server uses a free port.
func serve(t *testing.T, engine rsyncgrpc.Engine, o rsyncgrpc.ServerOptions) (addr string, stop func()) {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.CertFile == "" {
		o.Insecure = true
	}
	server, err := rsyncgrpc.NewServer(engine, o)
	if err != nil {
		t.Fatal(err)
	}
	stop = background.Run(t, server.Start)
	select {
	case <-server.Ready():
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return server.Addr().String(), stop
}

// dial returns a client with a short backoff.
func dial(t *testing.T, addr string, o rsyncgrpc.ClientOptions) *rsyncgrpc.Client {
	t.Helper()
	if o.CAFile == "" {
		o.Insecure = true
	}
	if o.Backoff.Base == 0 {
		o.Backoff = rsync.Backoff{Base: 5 * time.Millisecond, Max: 50 * time.Millisecond}
	}
	client, err := rsyncgrpc.NewClient(addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// remote returns a scene with a server, and a client without TLS.
func remote(t *testing.T, o rsyncgrpc.ServerOptions) (*scene, *rsyncgrpc.Client) {
	t.Helper()
	s := newScene(t)
	addr, _ := serve(t, s.engine, o)
	return s, dial(t, addr, rsyncgrpc.ClientOptions{})
}

func configMap(name, value string) []byte {
	return fmt.Appendf(nil,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {value: %s}\n", name, value)
}

// shop returns a context with one app on some clusters.
func shop(t testing.TB, id, value string, clusters ...string) *appcontext.AppContext {
	t.Helper()
	b := appcontext.NewBuilder(id)
	for _, cluster := range clusters {
		b.App("web").Resource("edge", cluster, configMap("settings", value))
	}
	c, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// soon waits until so returns true.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// limited returns a context that ends after patience.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// describe returns a change in a few words.
func describe(c rsync.Change) string {
	switch {
	case c.Deleted:
		return "deleted"
	case c.Element != nil:
		return fmt.Sprintf("%d %s %s", c.Element.Seq, c.Element.Event, c.Element.Status)
	case c.Cluster != nil:
		return fmt.Sprintf("%s %s %s %s", c.Cluster.App, c.Cluster.Cluster.Name, c.Cluster.Event, c.Cluster.Phase)
	}
	return string(c.State)
}

// tlsFiles are the files of a server and a client with the same CA.
type tlsFiles struct {
	folder                       string
	ca                           *certtest.Authority
	server, serverKey            string
	caFile, client, clientKeyPEM string
}

func newTLSFiles(t *testing.T) *tlsFiles {
	t.Helper()
	f := &tlsFiles{folder: t.TempDir(), ca: certtest.New(t)}
	f.caFile = f.ca.Write(t, f.folder, "ca")
	f.server, f.serverKey = f.ca.Issue(t, "server").Write(t, f.folder, "server")
	f.client, f.clientKeyPEM = f.ca.Issue(t, "client").Write(t, f.folder, "client")
	return f
}

func (f *tlsFiles) serverOptions() rsyncgrpc.ServerOptions {
	return rsyncgrpc.ServerOptions{CertFile: f.server, KeyFile: f.serverKey, ClientCAFile: f.caFile}
}

func (f *tlsFiles) clientOptions() rsyncgrpc.ClientOptions {
	return rsyncgrpc.ClientOptions{CAFile: f.caFile, CertFile: f.client, KeyFile: f.clientKeyPEM}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return listener
}
