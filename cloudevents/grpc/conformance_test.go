// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/cloudevents/transporttest"
	"github.com/spokewire/sdk-go/codec"
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

// plain connects over TCP to a server that has only OCM's service. The service has no topics, but
// clusters: a topic is the name of a cluster, and each event is a spec. So it runs the checks with at
// most one topic for a connection. Its MaxPacketSize is constant, so it is no Limiter.
type plain struct{ remote remote }

func (plain) Exact() bool { return true }

func (h plain) Transport(t *testing.T) cloudevents.Transport {
	return clusterTransport{h.remote.Transport(t)}
}

func (h plain) Cut(t *testing.T) { h.remote.Cut(t) }

func (h plain) Stall(t *testing.T) func() { return h.remote.Stall(t) }

type clusterTransport struct{ cloudevents.Transport }

func (c clusterTransport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	var filters []string
	for _, topic := range o.Filters {
		filters = append(filters, codec.ManifestBundle.AgentFilters(clusterOf(topic))...)
	}
	receive := o.Receive
	o.Filters, o.Receive = filters, func(m cloudevents.Message) {
		attributes := m.Event.Extensions()
		m.Topic = strings.ReplaceAll(attributes["clustername"].(string), ".", "/")
		m.Event.SetType(attributes["type0"].(string))
		m.Event.SetSource(attributes["source0"].(string))
		for _, name := range []string{"clustername", "type0", "source0"} {
			m.Event.SetExtension(name, nil)
		}
		receive(m)
	}
	conn, err := c.Transport.Connect(ctx, o)
	return clusterConn{conn}, err
}

func clusterOf(topic string) string { return strings.ReplaceAll(topic, "/", ".") }

type clusterConn struct{ cloudevents.Conn }

func (c clusterConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	e := m.Event.Clone()
	e.SetExtension("clustername", clusterOf(m.Topic))
	e.SetExtension("type0", e.Type())
	e.SetExtension("source0", e.Source())
	e.SetType(ocm.DataType + ".spec.create_request")
	e.SetSource("hub")
	return c.Conn.Publish(ctx, cloudevents.Message{Topic: m.Topic, Event: &e}, done)
}

func TestConformanceOfOCMsService(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{})
	addr := serveOCM(t, server)
	_ = connect(t, newTransport(t, grpc.Options{Address: addr, Insecure: true}), nil).Close()
	transporttest.Run(t, plain{remote{server, tcpproxy.Start(t, addr)}})
}
