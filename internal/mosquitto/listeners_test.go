// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mosquitto_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/spokewire/sdk-go/internal/mosquitto"
)

// selfSigned writes a certificate for 127.0.0.1 that is its own authority, and
// returns the files and a pool that trusts it.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	return certFile, keyFile, pool
}

func TestTLS(t *testing.T) {
	certFile, keyFile, pool := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		reason   string
		clientCA string
		certs    []tls.Certificate
		refused  bool
	}{
		{name: "server only", reason: "an authority alone is enough for server TLS"},
		{name: "no client certificate", reason: "the broker demands one", clientCA: certFile, refused: true},
		{name: "client certificate", reason: "the broker knows its authority", clientCA: certFile, certs: []tls.Certificate{pair}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broker := mosquitto.Start(t, mosquitto.Options{CertFile: certFile, KeyFile: keyFile, ClientCAFile: test.clientCA})
			if u, err := url.Parse(broker.URL()); err != nil || u.Scheme != "mqtts" {
				t.Errorf("URL() = %s, want scheme mqtts", broker.URL())
			}
			conn := tls.Client(dial(t, broker), &tls.Config{
				RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, Certificates: test.certs,
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
	certFile, keyFile, pool := selfSigned(t)
	tests := []struct {
		name    string
		options mosquitto.Options
		scheme  string
	}{
		{"plain", mosquitto.Options{WebSockets: true}, "ws"},
		{"TLS", mosquitto.Options{WebSockets: true, CertFile: certFile, KeyFile: keyFile}, "wss"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broker := mosquitto.Start(t, test.options)
			if u, err := url.Parse(broker.WebSocketURL()); err != nil || u.Scheme != test.scheme || u.Host == broker.Addr() {
				t.Fatalf("WebSocketURL() = %s, want scheme %s and a port of its own", broker.WebSocketURL(), test.scheme)
			}
			dialer := websocket.Dialer{
				Subprotocols:    []string{"mqtt"},
				TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
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
