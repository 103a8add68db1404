// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/transporttest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowAll is for tests with topics of their own.
var allowAll = grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil })

// newServer returns a server without TLS that allows everything.
func newServer(t testing.TB, o grpc.ServerOptions) *grpc.Server {
	t.Helper()
	if o.CertFile == "" {
		o.Insecure = true
	}
	if o.Authorizer == nil {
		o.Authorizer = allowAll
	}
	server, err := grpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// serve serves on an address until the test ends, or stop is called. An empty address means a free
// port.
func serve(t testing.TB, server *grpc.Server, addr string) (bound string, stop func()) {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

func newTransport(t testing.TB, o grpc.Options) *grpc.Transport {
	t.Helper()
	transport, err := grpc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// remote connects over TCP, through a proxy that can cut and stall links.
type remote struct {
	server *grpc.Server
	proxy  *tcpproxy.Proxy
}

func (h remote) Transport(t *testing.T) cloudevents.Transport {
	return newTransport(t, grpc.Options{Address: h.proxy.Addr(), Insecure: true})
}

func (h remote) Cut(*testing.T) { h.proxy.Cut() }

func (h remote) Stall(*testing.T) func() {
	h.proxy.Stall()
	return h.proxy.Resume
}

func (h remote) Limited(t *testing.T, limit int) cloudevents.Transport {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{MaxMessageSize: limit}), "")
	return newTransport(t, grpc.Options{Address: addr, Insecure: true})
}

func (h remote) PublishRaw(t *testing.T, topic string, payload []byte) {
	if err := h.server.PublishRaw(topic, payload); err != nil {
		t.Fatal(err)
	}
}

func TestConformanceOverTCP(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{})
	addr, _ := serve(t, server, "")
	// Now all goroutines of Serve run, which transporttest must not count.
	_ = connect(t, newTransport(t, grpc.Options{Address: addr, Insecure: true}), nil).Close()
	transporttest.Run(t, remote{server, tcpproxy.Start(t, addr)})
}

// inProcess connects without a network.
type inProcess struct{ server *grpc.Server }

func (h inProcess) Transport(*testing.T) cloudevents.Transport { return h.server.Transport() }

func (h inProcess) Cut(*testing.T) { h.server.Cut() }

func (h inProcess) Limited(t *testing.T, limit int) cloudevents.Transport {
	return newServer(t, grpc.ServerOptions{MaxMessageSize: limit}).Transport()
}

func (h inProcess) PublishRaw(t *testing.T, topic string, payload []byte) {
	if err := h.server.PublishRaw(topic, payload); err != nil {
		t.Fatal(err)
	}
}

func TestConformanceInProcess(t *testing.T) {
	transporttest.Run(t, inProcess{newServer(t, grpc.ServerOptions{})})
}
