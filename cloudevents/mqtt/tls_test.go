// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// startTLS runs a broker that accepts client certificates of ca, and clients without a certificate.
// It stores the name of each client certificate in client.
func startTLS(t *testing.T, ca *certtest.Authority, client *atomic.Value) embedded {
	return startEmbedded(t, embeddedOptions{tls: &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "broker").Certificate},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    ca.Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			name := ""
			if len(state.PeerCertificates) > 0 {
				name = state.PeerCertificates[0].Subject.CommonName
			}
			client.Store(name)
			return nil
		},
	}})
}

// TestTLS checks that the CA of the broker is sufficient and another CA is not, and that files are
// read again for each connection.
func TestTLS(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	var client atomic.Value // the name in the last client's certificate
	broker := startTLS(t, ca, &client)
	folder := t.TempDir()
	caFile, certFile, keyFile := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "tls.crt"),
		filepath.Join(folder, "tls.key")
	options := mqtt.Options{BrokerURL: "mqtts://" + broker.addr, CAFile: caFile}
	transport := newTransport(t, options)
	open := func(transport *mqtt.Transport) error {
		conn, err := transport.Connect(t.Context(), connectOptions(t, nil, "topic"))
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	wantPermanent := func(err error, parts ...string) {
		t.Helper()
		wantError(t, err, parts...)
		var permanent *cloudevents.PermanentError
		if !errors.As(err, &permanent) {
			t.Errorf("%v is not a PermanentError", err)
		}
	}

	writeFile(t, caFile, other.PEM)
	wantPermanent(open(transport), "certificate was not accepted: check CAFile")
	writeFile(t, caFile, "no certificate")
	wantError(t, open(transport), "contains no certificate in PEM")
	writeFile(t, caFile, ca.PEM)
	if err := open(transport); err != nil {
		t.Errorf("after the CA file was put right: %v", err)
	}

	options.CertFile, options.KeyFile = certFile, keyFile
	// A resumed session would use the first certificate.
	options.TLS = &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	transport = newTransport(t, options)
	for _, name := range []string{"first", "second"} {
		id := ca.Issue(t, name)
		writeFile(t, certFile, id.CertPEM)
		writeFile(t, keyFile, id.KeyPEM)
		if err := open(transport); err != nil {
			t.Errorf("certificate %q: %v", name, err)
		}
		if got := client.Load(); got != name {
			t.Errorf("the broker saw the certificate of %q, want %q", got, name)
		}
	}
	stranger := other.Issue(t, "stranger")
	writeFile(t, certFile, stranger.CertPEM)
	writeFile(t, keyFile, stranger.KeyPEM)
	wantPermanent(open(transport), "does not trust the CA of the certificate: check CertFile")

	wrongHost := newTransport(t, mqtt.Options{BrokerURL: "mqtts://" + broker.addr, CAFile: caFile,
		TLS: &tls.Config{ServerName: "another.example.com"}})
	wantPermanent(open(wrongHost), "certificate was not accepted")
}

// TestTLSVersion checks that the client does not use TLS below 1.2, even if the options allow it.
func TestTLSVersion(t *testing.T) {
	ca := certtest.New(t)
	broker := startEmbedded(t, embeddedOptions{tls: &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "broker").Certificate},
		MinVersion:   tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	}})
	transport := newTransport(t, mqtt.Options{BrokerURL: "mqtts://" + broker.addr,
		TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10}})
	_, err := transport.Connect(t.Context(), connectOptions(t, nil))
	wantError(t, err, "TLS handshake", "version")
}

// TestNoFallbackToClearText checks that the client does not send its password if the scheme
// requires TLS and the server does not support it.
func TestNoFallbackToClearText(t *testing.T) {
	for _, scheme := range []string{"mqtts://", "wss://"} {
		seen := make(chan []byte, 1)
		addr := fake(t, func(conn net.Conn) {
			buf := make([]byte, 64<<10)
			n, _ := conn.Read(buf)
			_, _ = conn.Write(accepted)
			seen <- buf[:n]
		})
		transport := newTransport(t, mqtt.Options{BrokerURL: scheme + addr, Username: "user", Password: "s3cret"})
		_, err := transport.Connect(t.Context(), connectOptions(t, nil))
		wantError(t, err, "does not speak TLS")
		if sent := string(<-seen); len(sent) == 0 || sent[0] != 22 {
			t.Errorf("%s: the first bytes are %x, want a TLS handshake", scheme, sent[:min(len(sent), 16)])
		}
	}
}

// TestSchemes checks each scheme with its own listener of Mosquitto.
func TestSchemes(t *testing.T) {
	ca := certtest.New(t)
	id := ca.Issue(t, "broker")
	folder := t.TempDir()
	caFile, certFile, keyFile := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "tls.crt"),
		filepath.Join(folder, "tls.key")
	writeFile(t, caFile, ca.PEM)
	writeFile(t, certFile, id.CertPEM)
	writeFile(t, keyFile, id.KeyPEM)
	plain := mosquitto.Start(t, mosquitto.Options{WebSockets: true})
	secure := mosquitto.Start(t, mosquitto.Options{WebSockets: true, CertFile: certFile, KeyFile: keyFile})
	for _, options := range []mqtt.Options{
		{BrokerURL: plain.URL()},
		{BrokerURL: plain.WebSocketURL() + "/mqtt"},
		{BrokerURL: secure.URL(), CAFile: caFile},
		{BrokerURL: secure.WebSocketURL(), CAFile: caFile},
	} {
		received := make(chan cloudevents.Message, 1)
		conn := connectWith(t, options, received, "topic/+")
		// The event is small, because Mosquitto 2.0.11 needs 0.1 s for each KiB of a message on its
		// WebSocket listener.
		publish(t, conn, "topic/x", sampleEvent())
		if m := <-received; m.Topic != "topic/x" || m.Event.ID() != "1" {
			t.Errorf("%s: got %v", options.BrokerURL, m)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: Close: %v", options.BrokerURL, err)
		}
	}
}
