// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// bridge forwards MQTT from WebSockets to a broker's TCP listener, in messages of odd sizes that have nothing to
// do with the bounds of packets.
func bridge(broker string) http.Handler {
	upgrader := websocket.Upgrader{Subprotocols: []string{"mqtt"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mqtt" {
			http.NotFound(w, r)
			return
		}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		conn, err := net.Dial("tcp", broker)
		if err != nil {
			return
		}
		defer conn.Close()
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

// TestWebSocketFrames: MQTT packets and WebSocket messages have independent bounds, also over TLS.
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
		for _, size := range []int{0, 1, 1000, 4096, 100_000} {
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
