// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

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

// TestRotation checks that a certificate is replaced while requests are served. A partly written
// certificate is not served.
func TestRotation(t *testing.T) {
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
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url("/w"), strings.NewReader(health(interpreter.ProtocolInterpret, workload)))
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
	want(with(clients.IssueUntil(t, "control-plane", time.Now().Add(-time.Minute)).Certificate), http.StatusUnauthorized, "one that is too old")
	others := certtest.New(t)
	want(with(others.Issue(t, "control-plane").Certificate), http.StatusUnauthorized, "a certificate of another CA, of the same name")
	others.Write(t, folder, "ca")
	want(with(others.Issue(t, "control-plane").Certificate), http.StatusOK, "the CA was replaced")
	want(with(clients.Issue(t, "control-plane").Certificate), http.StatusUnauthorized, "by the other one")
	want(open, http.StatusUnauthorized, "on a connection that is older")
	if code, _ := w.do(t, http.MethodGet, "/readyz", "", ""); code != 200 {
		t.Errorf("a probe without a certificate gets HTTP %d", code)
	}
}

// TestStop checks that Start returns after the request in progress is answered, and that a second
// Start returns ErrServerStarted.
func TestStop(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
		close(entered)
		<-leave
		r := interpreter.Succeeded("")
		r.Healthy = new(true)
		return r
	})
	w := start(t, interpreter.ServerOptions{}, map[string]interpreter.Handler{"/slow": slow})
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := w.do(t, http.MethodGet, path, "", ""); code != 200 || body != "ok\n" {
			t.Errorf("%s: HTTP %d %q", path, code, body)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		if code, body := w.post(t, "/slow", health(interpreter.ProtocolInterpret, workload)); code != 200 || !strings.Contains(body, `"healthy":true`) {
			t.Errorf("the request was cut off: HTTP %d %s", code, body)
		}
	})
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	select {
	case err := <-stopped:
		t.Errorf("Start returned while a request was being answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	group.Wait()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := w.Start(t.Context()); !errors.Is(err, interpreter.ErrServerStarted) {
		t.Errorf("the second Start: %v", err)
	}
}

// TestDeadline checks that the handler's context ends at the timeout of the caller.
func TestDeadline(t *testing.T) {
	w := start(t, interpreter.ServerOptions{}, map[string]interpreter.Handler{"/w": interpreter.HandlerFunc(func(ctx context.Context, _ interpreter.Request) interpreter.Response {
		<-ctx.Done()
		return interpreter.Errored(http.StatusGatewayTimeout, ctx.Err())
	})})
	code, body := w.post(t, "/w?timeout=500ms", health(interpreter.ProtocolInterpret, workload))
	wantFailure(t, code, body, http.StatusGatewayTimeout, "the handler did not answer in time")
}

// TestHandlerIgnoresContext checks that the caller receives an answer at the timeout. The handler
// keeps its slot and its object until it returns.
func TestHandlerIgnoresContext(t *testing.T) {
	leave, objects := make(chan struct{}), make(chan string, 1)
	stuck := interpreter.HandlerFunc(func(_ context.Context, r interpreter.Request) interpreter.Response {
		<-leave
		objects <- string(r.Object.Raw)
		return interpreter.Denied("too late")
	})
	w := start(t, interpreter.ServerOptions{MaxConcurrent: 1}, map[string]interpreter.Handler{"/stuck": stuck, "/w": workloads})
	for _, protocol := range []interpreter.Protocol{interpreter.ProtocolInterpret, interpreter.ProtocolExplore} {
		if protocol == interpreter.ProtocolExplore {
			leave <- struct{}{}
			if object := <-objects; !strings.Contains(object, `"kind":"Workload"`) {
				t.Errorf("the handler had the object %s", object)
			}
			until(t, "the place is free", func() bool {
				code, _ := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload))
				return code == http.StatusOK
			})
		}
		code, body := w.post(t, "/stuck?timeout=50ms", health(protocol, workload))
		if protocol == interpreter.ProtocolInterpret {
			wantFailure(t, code, body, http.StatusGatewayTimeout, "the handler did not answer in time")
		} else if code != http.StatusGatewayTimeout || !strings.Contains(body, "the handler did not answer in time") {
			t.Errorf("HTTP %d %s", code, body)
		}
		code, body = w.post(t, "/w", health(interpreter.ProtocolInterpret, workload))
		wantStatus(t, code, body, http.StatusTooManyRequests,
			"1 requests are being answered, which is the limit, and 1 of their handlers did not return at their timeout: try again", "")
	}
	close(leave)
}

// TestMaxConcurrent checks that requests over the limit are answered immediately, for any body size
// and handler. Probes do not count.
func TestMaxConcurrent(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
		entered <- struct{}{}
		<-leave
		return interpreter.Denied("done")
	})
	registry := prometheus.NewRegistry()
	w := start(t, interpreter.ServerOptions{MaxConcurrent: 2, MetricsRegisterer: registry}, map[string]interpreter.Handler{"/slow": slow, "/w": workloads})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			code, body := w.post(t, "/slow", health(interpreter.ProtocolInterpret, workload))
			wantFailure(t, code, body, http.StatusForbidden, "done")
		})
		<-entered
	}
	code, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload))
	wantStatus(t, code, body, http.StatusTooManyRequests, "2 requests are being answered, which is the limit: try again", "")
	if code, _ := w.do(t, http.MethodGet, "/readyz", "", ""); code != 200 {
		t.Errorf("a probe gets HTTP %d", code)
	}
	close(leave)
	group.Wait()
	if code, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload)); code != 200 {
		t.Errorf("when there is a place: HTTP %d %s", code, body)
	}
	if n := metertest.Values(t, registry)["spokewire_interpreter_server_requests_total code=429 handler=/w operation=none"]; n != 1 {
		t.Errorf("%v refused requests were counted: %v", n, metertest.Values(t, registry))
	}
}

func TestServerOptions(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		options interpreter.ServerOptions
		want    string
	}{
		{interpreter.ServerOptions{}, "ServerOptions.CertDir is required: callers speak TLS only"},
		{interpreter.ServerOptions{CertDir: "x", Addr: "nowhere"}, `ServerOptions.Addr "nowhere" is not host:port: address nowhere: missing port in address`},
		{interpreter.ServerOptions{CertDir: "x", CertName: "a/b"}, "ServerOptions.CertName and KeyName are names of files in CertDir, not paths"},
		{interpreter.ServerOptions{CertDir: "x", MaxBytes: -1}, "ServerOptions.MaxBytes is -1: it must not be negative"},
		{interpreter.ServerOptions{CertDir: "x", MaxConcurrent: -1}, "ServerOptions.MaxConcurrent is -1: it must not be negative"},
		{interpreter.ServerOptions{CertDir: "x", Timeout: -1}, "ServerOptions.Timeout and ShutdownTimeout must not be negative"},
	} {
		if _, err := interpreter.NewServer(test.options); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	s, err := interpreter.NewServer(interpreter.ServerOptions{CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate: open "+filepath.Join(folder, "tls.crt")) {
		t.Errorf("without a certificate: %v", err)
	}
	s, err = interpreter.NewServer(interpreter.ServerOptions{CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"w":        `register "w": a path begins with / and has none of {}%?#, no space and no control character`,
		"/healthz": `register "/healthz": the path is taken`,
	} {
		if err := interpreter.Register(s, path, workloads); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `register "/healthz": the path is taken`) {
		t.Errorf("Start has forgotten what Register said: %v", err)
	}
}

// TestLogs checks that the data of objects is never in the log.
func TestLogs(t *testing.T) {
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&log)))
	h := interpreter.NewHandler(workloads, interpreter.HandlerOptions{})
	const secret = "hunter2"
	for _, object := range []string{
		`{"kind":"Workload","apiVersion":"example.com/v1","metadata":{"name":"panics"},"spec":{"config":"` + secret + `"}}`,
		`{"kind":"Workload","apiVersion":"example.com/v1","metadata":{"name":"fails"},"spec":{"config":"` + secret + `"}}`,
		`{"kind":"Workload","apiVersion":"example.com/v1","metadata":{"name":"w"},"spec":{"config":1,"x":"` + secret + `"}}`,
	} {
		r := newRequest(t, health(interpreter.ProtocolExplore, object))
		h.ServeHTTP(&recorder{}, r.WithContext(klog.NewContext(t.Context(), logger)))
	}
	if log.Len() == 0 || strings.Contains(log.String(), secret) {
		t.Errorf("the log has a secret, or nothing:\n%s", &log)
	}
	if !strings.Contains(log.String(), "fixture_test.go") {
		t.Errorf("the log does not say where the handler panicked:\n%s", &log)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		h := interpreter.NewHandler(workloads, interpreter.HandlerOptions{Name: name, MetricsRegisterer: registry})
		h.ServeHTTP(&recorder{}, newRequest(t, health(interpreter.ProtocolInterpret, workload)))
		h.ServeHTTP(&recorder{}, newRequest(t, "{}"))
	}
	metertest.Lint(t, registry)
	metertest.Expect(t, registry, map[string]float64{
		"spokewire_interpreter_server_requests_total code=200 handler=a operation=InterpretHealth": 1,
		"spokewire_interpreter_server_requests_total code=400 handler=b operation=none":            1,
		"spokewire_interpreter_server_request_seconds_count handler=b":                             2,
		"spokewire_interpreter_server_requests_in_flight handler=a":                                0,
	})
}
