// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/gorilla/websocket"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// bridge forwards MQTT from WebSockets to a broker's TCP listener. The sizes of its messages are
// independent of the packets.
func bridge(broker string) http.Handler {
	upgrader := websocket.Upgrader{Subprotocols: []string{"mqtt"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mqtt" {
			http.NotFound(w, r)
			return
		}
		conn, err := net.Dial("tcp", broker)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer conn.Close()
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		go func() {
			defer ws.Close()
			defer conn.Close()
			buf := make([]byte, 1<<10)
			for size := 1; ; size = size%997 + 1 {
				n, err := conn.Read(buf[:size])
				if err != nil || ws.WriteMessage(websocket.BinaryMessage, buf[:n]) != nil {
					return
				}
			}
		}()
		for {
			kind, message, err := ws.NextReader()
			if err != nil || kind != websocket.BinaryMessage {
				return
			}
			if _, err := io.Copy(conn, message); err != nil {
				return
			}
		}
	})
}

// TestWebSocketFrames checks that MQTT packets may begin and end anywhere in WebSocket messages,
// also over TLS.
func TestWebSocketFrames(t *testing.T) {
	broker := startEmbedded(t, embeddedOptions{})
	plain := httptest.NewServer(bridge(broker.addr))
	defer plain.Close()
	secure := httptest.NewTLSServer(bridge(broker.addr))
	defer secure.Close()
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	for _, options := range []mqtt.Options{
		{BrokerURL: strings.Replace(plain.URL, "http://", "ws://", 1) + "/mqtt"},
		{BrokerURL: strings.Replace(secure.URL, "https://", "wss://", 1) + "/mqtt", CAFile: caFile},
	} {
		received := make(chan cloudevents.Message, 100)
		conn := connectWith(t, options, received, "topic")
		for _, size := range []int{0, 1, 1000, 4096, 100_000, 500_000} {
			e := sampleEvent()
			e.SetDataContentType("text/plain")
			e.DataEncoded = []byte(strings.Repeat("x", size))
			publish(t, conn, "topic", e)
			if m := <-received; len(m.Event.Data()) != size {
				t.Errorf("%s: got %d bytes, want %d", options.BrokerURL, len(m.Event.Data()), size)
			}
		}
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// plays serves WebSockets with a handler instead of a broker, and reports each request.
func plays(t *testing.T, handle func(*websocket.Conn)) (addr string, requests chan *http.Request) {
	t.Helper()
	upgrader := websocket.Upgrader{Subprotocols: []string{"mqtt"}}
	requests = make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if ws, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer ws.Close()
			handle(ws)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), requests
}

// acceptConnect reads CONNECT and accepts it.
func acceptConnect(ws *websocket.Conn) {
	if kind, _, err := ws.ReadMessage(); err == nil && kind == websocket.BinaryMessage {
		_ = ws.WriteMessage(websocket.BinaryMessage, accepted)
	}
}

// TestWebSocketRequest checks the handshake that the server receives.
func TestWebSocketRequest(t *testing.T) {
	addr, requests := plays(t, acceptConnect)
	for _, path := range []string{"", "/", "/mqtt", "/a%2Fb/c?token=x%20y&z=%26", "?token=x"} {
		conn := connect(t, mqtt.Options{BrokerURL: "ws://" + addr + path, Username: "user", Password: "s3cret"})
		_ = conn.Close()
		r := <-requests
		want := path
		if !strings.HasPrefix(want, "/") {
			want = "/" + want
		}
		if r.RequestURI != want || r.Host != addr || r.Header.Get("Sec-WebSocket-Protocol") != "mqtt" ||
			r.Header.Get("Authorization") != "" {
			t.Errorf("request for %q on %q with headers %v, want %q on %q and the subprotocol mqtt", r.RequestURI, r.Host,
				r.Header, want, addr)
		}
	}
	for url, want := range map[string]string{
		"ws://host/mqtt": "ws://host/mqtt", "ws://host:80/": "ws://host/", "wss://host:443": "wss://host/",
		"wss://[::1]:443/x?": "wss://[::1]/x?",
		"wss://host:80/":     "wss://host:80/", "ws://[fe80::1%25eth0]:81/": "ws://[fe80::1%25eth0]:81/",
	} {
		if got := newTransport(t, mqtt.Options{BrokerURL: url}).Target(); got != want {
			t.Errorf("the handshake for %s asks for %s, want %s", url, got, want)
		}
	}
}

// TestWebSocketControl checks that pings are answered with their text, also in the middle of a
// packet. The reason why the server ended the connection is the error of the connection.
func TestWebSocketControl(t *testing.T) {
	pongs := make(chan string, 1)
	packet := (&packets.Publish{Topic: "topic", Payload: []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t"}`),
		Properties: &packets.Properties{}})
	var encoded bytes.Buffer
	if _, err := packet.WriteTo(&encoded); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		end  func(*websocket.Conn) error
		want string
	}{
		{"text", func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte("s3cret")) },
			"not binary"},
		{"policy", closing(websocket.ClosePolicyViolation), "(1008): a policy violation"},
		{"too big", closing(websocket.CloseMessageTooBig), "(1009): a message was too big"},
		{"error", closing(websocket.CloseInternalServerErr), "closed the WebSocket (1011)"},
		{"orderly", closing(websocket.CloseNormalClosure), "the broker closed the connection"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			arrived := make(chan struct{}) // the end of a connection overtakes messages that are not yet received
			addr, _ := plays(t, func(ws *websocket.Conn) {
				ws.SetPongHandler(func(text string) error {
					pongs <- text
					select {
					case <-arrived:
					case <-time.After(patience):
					}
					return test.end(ws)
				})
				acceptConnect(ws)
				if _, subscribe, err := ws.ReadMessage(); err == nil {
					_ = ws.WriteMessage(websocket.BinaryMessage, []byte{0x90, 4, subscribe[2], subscribe[3], 0, 1})
				}
				half := encoded.Len() / 2
				_ = ws.WriteMessage(websocket.BinaryMessage, encoded.Bytes()[:half])
				_ = ws.WriteControl(websocket.PingMessage, []byte("marco"), time.Now().Add(time.Second))
				_ = ws.WriteMessage(websocket.BinaryMessage, encoded.Bytes()[half:])
				_, _, _ = ws.ReadMessage() // processes the pong
			})
			received := make(chan cloudevents.Message, 1)
			conn := connectWith(t, mqtt.Options{BrokerURL: "ws://" + addr}, received, "topic")
			if m := <-received; m.Event.ID() != "1" {
				t.Errorf("got %v", m)
			}
			close(arrived)
			wantError(t, ended(t, conn), test.want)
			if got := <-pongs; got != "marco" {
				t.Errorf("pong %q", got)
			}
		})
	}
}

// closing returns a function that ends a WebSocket with a code and a text that must not be
// reported.
func closing(code int) func(*websocket.Conn) error {
	return func(ws *websocket.Conn) error {
		return ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "s3cret"),
			time.Now().Add(time.Second))
	}
}

// TestWebSocketGateway kills the broker behind a gateway. The error names the response of the
// gateway, and the client reconnects after the broker has restarted.
func TestWebSocketGateway(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	gateway := httptest.NewServer(bridge(broker.Addr()))
	t.Cleanup(gateway.Close)
	l := startLoop(t, &journal{}, mqtt.Options{BrokerURL: strings.Replace(gateway.URL, "http", "ws", 1) + "/mqtt"},
		clock.RealClock{})
	if err := l.attempts.next(t); err != nil {
		t.Fatal(err)
	}
	l.roundTrip()
	broker.Kill()
	wantError(t, l.attempts.next(t), "HTTP 502 Bad Gateway: is the broker behind it up?")
	broker.Restart()
	l.roundTrip()
}
