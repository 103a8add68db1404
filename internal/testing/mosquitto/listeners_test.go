// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mosquitto_test

import (
	"crypto/tls"
	"net/url"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// site is an authority and a certificate of it, both also as files.
type site struct {
	ca                        *certtest.Authority
	id                        *certtest.Identity
	caFile, certFile, keyFile string
}

func newSite(t *testing.T) *site {
	t.Helper()
	folder, ca := t.TempDir(), certtest.New(t)
	s := &site{ca: ca, id: ca.Issue(t, "broker"), caFile: ca.Write(t, folder, "ca")}
	s.certFile, s.keyFile = s.id.Write(t, folder, "tls")
	return s
}

func TestTLS(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		name     string
		reason   string
		clientCA string
		certs    []tls.Certificate
		refused  bool
	}{
		{name: "server only", reason: "an authority alone is enough for server TLS"},
		{name: "no client certificate", reason: "the broker demands one", clientCA: s.caFile, refused: true},
		{name: "client certificate", reason: "the broker knows its authority", clientCA: s.caFile,
			certs: []tls.Certificate{s.id.Certificate}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{CertFile: s.certFile, KeyFile: s.keyFile,
				ClientCAFile: test.clientCA})
			if u, err := url.Parse(broker.URL()); err != nil || u.Scheme != "mqtts" {
				t.Errorf("URL() = %s, want scheme mqtts", broker.URL())
			}
			conn := tls.Client(dial(t, broker), &tls.Config{
				RootCAs: s.ca.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, Certificates: test.certs,
			})
			t.Cleanup(func() { _ = conn.Close() })
			_, _, err := connect(t, conn, "", "")
			if (err != nil) != test.refused {
				t.Errorf("connect: %v, want refused = %v: %s", err, test.refused, test.reason)
			}
		})
	}
}

func TestWebSockets(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		name    string
		options mosquitto.Options
		scheme  string
	}{
		{"plain", mosquitto.Options{WebSockets: true}, "ws"},
		{"TLS", mosquitto.Options{WebSockets: true, CertFile: s.certFile, KeyFile: s.keyFile}, "wss"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broker := mosquitto.Start(t, test.options)
			if u, err := url.Parse(broker.WebSocketURL()); err != nil || u.Scheme != test.scheme || u.Host == broker.Addr() {
				t.Fatalf("WebSocketURL() = %s, want scheme %s and a port of its own", broker.WebSocketURL(), test.scheme)
			}
			dialer := websocket.Dialer{
				Subprotocols:    []string{"mqtt"},
				TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12},
			}
			for range 2 { // before and after a restart
				conn, _, err := dialer.DialContext(t.Context(), broker.WebSocketURL(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if conn.Subprotocol() != "mqtt" {
					t.Errorf("subprotocol = %q, want mqtt", conn.Subprotocol())
				}
				_ = conn.Close()
				broker.Restart()
			}
		})
	}
	if broker := mosquitto.Start(t, mosquitto.Options{}); broker.WebSocketURL() != "" {
		t.Errorf("WebSocketURL() = %s without Options.WebSockets", broker.WebSocketURL())
	}
}
