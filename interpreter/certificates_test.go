// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
)

// handshake opens a new connection and returns the common name of the served certificate.
func (w *webhook) handshake(t *testing.T, ca *certtest.Authority) (string, error) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool()}}
	conn, err := dialer.DialContext(t.Context(), "tcp", w.Addr().String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// TestCertificateIsReloaded checks that a certificate is replaced while requests are served. A partly written
// certificate is not served.
func TestCertificateIsReloaded(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := start(t, interpreter.ServerOptions{MetricsRegisterer: registry}, map[string]interpreter.Handler{"/w": workloads})
	serves := func(ca *certtest.Authority, want string) {
		t.Helper()
		if got, err := w.handshake(t, ca); err != nil || got != want {
			t.Errorf("the server shows %q (%v), want %q", got, err, want)
		}
		if code, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload)); code != 200 {
			t.Errorf("on the open connection: HTTP %d %s", code, body)
		}
	}
	serves(w.ca, "webhook")
	second := certtest.New(t)
	pair := second.Issue(t, "renewed")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(w.folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tls.crt", pair.CertPEM[:100])
	serves(w.ca, "webhook")
	write("tls.crt", pair.CertPEM)
	serves(w.ca, "webhook") // tls.key still has the old key
	if err := os.Remove(filepath.Join(w.folder, "tls.key")); err != nil {
		t.Fatal(err)
	}
	serves(w.ca, "webhook")
	write("tls.key", pair.KeyPEM)
	if got, err := w.handshake(t, second); err != nil || got != "renewed" {
		t.Errorf("the server shows %q (%v), want the renewed certificate", got, err)
	}
	if _, err := w.handshake(t, w.ca); err == nil {
		t.Error("the server still shows the old certificate")
	}
	values := metertest.Values(t, registry)
	if n := values["spokewire_interpreter_server_certificate_reloads_total result=success"]; n != 2 {
		t.Errorf("%v certificates were read, want 2", n)
	}
	if n := values["spokewire_interpreter_server_certificate_reloads_total result=failure"]; n == 0 {
		t.Error("no failure was counted")
	}
}

// TestClientCertificates checks that requests need a certificate if a client CA is set, and that
// probes do not. The CA file may be replaced.
func TestClientCertificates(t *testing.T) {
	clients := certtest.New(t)
	folder := t.TempDir()
	file := clients.Write(t, folder, "ca")
	w := start(t, interpreter.ServerOptions{ClientCAFile: file}, map[string]interpreter.Handler{"/w": workloads})
	with := func(certificates ...tls.Certificate) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.ca.Pool(), Certificates: certificates}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	want := func(client *http.Client, code int, reason string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url("/w"),
			strings.NewReader(health(interpreter.ProtocolInterpret, workload)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", reason, err)
			return
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != code {
			t.Errorf("%s: HTTP %d, want %d (%v)", reason, response.StatusCode, code, err)
		}
	}
	want(with(), http.StatusUnauthorized, "no certificate")
	open := with(clients.Issue(t, "control-plane").Certificate)
	want(open, http.StatusOK, "a certificate of the CA")
	want(with(clients.IssueUntil(t, "control-plane", time.Now().Add(-time.Minute)).Certificate), http.StatusUnauthorized,
		"one that is too old")
	others := certtest.New(t)
	want(with(others.Issue(t, "control-plane").Certificate), http.StatusUnauthorized,
		"a certificate of another CA, of the same name")
	others.Write(t, folder, "ca")
	want(with(others.Issue(t, "control-plane").Certificate), http.StatusOK, "the CA was replaced")
	want(with(clients.Issue(t, "control-plane").Certificate), http.StatusUnauthorized, "by the other one")
	want(open, http.StatusUnauthorized, "on a connection that is older")
	if code, _ := w.do(t, http.MethodGet, "/readyz", "", ""); code != 200 {
		t.Errorf("a probe without a certificate gets HTTP %d", code)
	}
}

// TestFailedReloadIsCountedOnce checks that a failure to load the certificate is counted once while it lasts,
// and counted again when it returns.
func TestFailedReloadIsCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := start(t, interpreter.ServerOptions{MetricsRegisterer: registry}, nil)
	key := filepath.Join(w.folder, "tls.key")
	good, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]func() error{
		"missing": func() error { return os.Remove(key) },
		"cut off": func() error { return os.WriteFile(key, good[:50], 0o600) },
		"good":    func() error { return os.WriteFile(key, good, 0o600) },
	}
	failures := 0.0
	for _, state := range []string{"missing", "good", "missing", "good", "cut off", "good", "cut off", "missing", "good"} {
		if err := files[state](); err != nil {
			t.Fatal(err)
		}
		if state != "good" {
			failures++
		}
		for range 2 {
			if name, err := w.handshake(t, w.ca); name != "webhook" || err != nil {
				t.Fatalf("%s: the server shows %q, %v", state, name, err)
			}
		}
		if got := metertest.Values(t,
			registry)["spokewire_interpreter_server_certificate_reloads_total result=failure"]; got != failures {
			t.Errorf("%s: %v failures were counted, want %v", state, got, failures)
		}
	}
}
