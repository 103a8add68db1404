// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package certtest_test

import (
	"crypto/tls"
	"net"
	"os"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// TestHandshake checks that both ends accept only certificates of the same authority.
func TestHandshake(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	server := ca.Issue(t, "server")
	for _, tt := range []struct {
		reason string
		client *certtest.Identity
		ok     bool
	}{
		{"the same authority", ca.Issue(t, "client"), true},
		{"another authority", other.Issue(t, "client"), false},
		{"too old", ca.IssueUntil(t, "client", time.Now().Add(-time.Minute)), false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			go func() {
				conn := tls.Client(near, &tls.Config{
					RootCAs: ca.Pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{tt.client.Certificate},
					MinVersion: tls.VersionTLS12,
				})
				_ = conn.HandshakeContext(t.Context())
				_, _ = conn.Read(make([]byte, 1)) // the server's verdict arrives after the handshake
			}()
			conn := tls.Server(far, &tls.Config{
				ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
				Certificates: []tls.Certificate{server.Certificate}, MinVersion: tls.VersionTLS12,
			})
			if err := conn.HandshakeContext(t.Context()); (err == nil) != tt.ok {
				t.Errorf("%v; want success: %v", err, tt.ok)
			}
		})
	}
}

// TestWrite checks that files have the last written content.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		ca := certtest.New(t)
		id := ca.Issue(t, "one")
		certFile, keyFile := id.Write(t, folder, "one")
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
			t.Error(err)
		}
		for file, want := range map[string]string{ca.Write(t, folder, "ca"): ca.PEM, certFile: id.CertPEM,
			keyFile: id.KeyPEM} {
			if got, err := os.ReadFile(file); string(got) != want || err != nil {
				t.Errorf("%s: %q, %v", file, got, err)
			}
		}
	}
}
