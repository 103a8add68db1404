// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"cmp"
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/transporttest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// harness has all abilities. All transports reach the broker through a proxy that can cut and stall
// links.
type harness struct {
	scheme string // default: mqtt
	path   string
	proxy  *tcpproxy.Proxy
	broker string // host:port, without the proxy
	binary bool
	// afterCut waits until the broker has seen the cut; nil if that is not necessary.
	afterCut func()
	// limited starts another broker with a packet limit, and returns options for it.
	limited func(t *testing.T, limit int) mqtt.Options
}

func newTransport(t testing.TB, o mqtt.Options) *mqtt.Transport {
	t.Helper()
	transport, err := mqtt.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func (h harness) url() string { return cmp.Or(h.scheme, "mqtt") + "://" + h.proxy.Addr() + h.path }

func (h harness) Binary() bool { return h.binary }

func (h harness) Transport(t *testing.T) cloudevents.Transport {
	return newTransport(t, mqtt.Options{BrokerURL: h.url()})
}

func (h harness) Session(t *testing.T, name string) cloudevents.Transport {
	return resuming{newTransport(t, mqtt.Options{BrokerURL: h.url(), ClientID: name, SessionExpiry: time.Hour})}
}

// resuming connects again if the broker delivers a message before it confirms the connection. The
// embedded broker does this while it forwards a message to the session that a client resumes.
type resuming struct{ *mqtt.Transport }

func (r resuming) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	for {
		conn, err := r.Transport.Connect(ctx, o)
		if err == nil || !strings.Contains(err.Error(), "unexpected packet 3") {
			return conn, err
		}
	}
}

func (h harness) Limited(t *testing.T, limit int) cloudevents.Transport {
	return newTransport(t, h.limited(t, limit))
}

func (h harness) Cut(*testing.T) {
	h.proxy.Cut()
	if h.afterCut != nil {
		h.afterCut()
	}
}

func (h harness) Stall(*testing.T) func() {
	h.proxy.Stall()
	return h.proxy.Resume
}

func (h harness) PublishRaw(t *testing.T, topic string, payload []byte) {
	publishRaw(t, h.broker, &paho.Publish{QoS: 1, Topic: topic, Payload: payload})
}

// publishRaw publishes with paho, without the transport.
func publishRaw(t testing.TB, addr string, messages ...*paho.Publish) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn)})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: uuid.NewString(), CleanStart: true,
		KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(&paho.Disconnect{}) }()
	for _, m := range messages {
		if _, err := client.Publish(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConformanceEmbedded(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			broker := startEmbedded(t, embeddedOptions{})
			transporttest.Run(t, harness{
				proxy:    tcpproxy.Start(t, broker.addr),
				broker:   broker.addr,
				binary:   mode.binary,
				afterCut: func() { awaitNoClients(broker.server) },
				// mochi does not announce its limit, so the client sets the same limit.
				limited: func(t *testing.T, limit int) mqtt.Options {
					broker := startEmbedded(t, embeddedOptions{maxPacketSize: uint32(limit)})
					return mqtt.Options{BrokerURL: broker.url(), MaxPacketSize: uint32(limit)}
				},
			})
		})
	}
}

// TestConformanceWebSocket runs the conformance tests over WebSockets. Their messages do not end
// where packets end.
func TestConformanceWebSocket(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{})
	server := httptest.NewServer(bridge(broker.addr))
	defer server.Close()
	limited := func(t *testing.T, limit int) mqtt.Options {
		return mqtt.Options{BrokerURL: broker.url(), MaxPacketSize: uint32(limit)}
	}
	proxy := tcpproxy.Start(t, strings.TrimPrefix(server.URL, "http://"))
	transporttest.Run(t, harness{scheme: "ws", path: "/mqtt", proxy: proxy, broker: broker.addr, limited: limited,
		afterCut: func() { awaitNoClients(broker.server) }})
}

func TestConformanceMosquitto(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{})
			transporttest.Run(t, harness{
				proxy:  tcpproxy.Start(t, broker.Addr()),
				broker: broker.Addr(),
				binary: mode.binary,
				limited: func(t *testing.T, limit int) mqtt.Options {
					return mqtt.Options{BrokerURL: mosquitto.Start(t, mosquitto.Options{MaxPacketSize: limit}).URL()}
				},
			})
		})
	}
}

var modes = []struct {
	name   string
	binary bool
}{{"Structured", false}, {"Binary", true}}
