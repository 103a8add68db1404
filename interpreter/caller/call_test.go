// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
)

// wait blocks a request until its caller has gone. The server detects that only after it has read
// the body.
func wait(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// reason returns the CallError of a failed call.
func reason(t *testing.T, err error) *caller.CallError {
	t.Helper()
	var failed *caller.CallError
	if !errors.As(err, &failed) {
		t.Fatalf("%v is no CallError", err)
	}
	return failed
}

// TestReasonOfEachFailure checks the reason of each kind of failure. The error contains the server's message.
func TestReasonOfEachFailure(t *testing.T) {
	status := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		})
	}
	for _, test := range []struct {
		name    string
		handler http.Handler
		reason  caller.Reason
		code    int
		want    string
	}{
		{"status", status(500, `{"kind":"Status","message":"out of order"}`), caller.ReasonStatus, 500,
			"HTTP 500 Internal Server Error from URL"},
		{"text", status(404, "nothing here\n"), caller.ReasonStatus, 404, "HTTP 404 Not Found from URL"},
		{"another document", status(502, `{"secret":"hunter2"}`), caller.ReasonStatus, 502,
			"HTTP 502 Bad Gateway from URL"},
		{"redirect", http.RedirectHandler("https://elsewhere.example.com/", http.StatusTemporaryRedirect),
			caller.ReasonStatus, 307, "HTTP 307 Temporary Redirect from URL"},
		{"cut off", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			caller.ReasonInterrupted, 0, "EOF"},
		{"slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { wait(r) }), caller.ReasonTimeout, 0,
			"no answer in 1s: context deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, ca := serve(t, test.handler)
			server.Config.ErrorLog = nil
			configuration := exploring("c", at(server.URL, ca))
			configuration.Webhooks[0].TimeoutSeconds = new(int32(1))
			c := configured(t, caller.Options{}, explore(configuration))
			_, err := c.Health(t.Context(), object())
			failed, want := reason(t, err), strings.Replace(test.want, "URL", server.URL, 1)
			if failed.Reason != test.reason || failed.Code != test.code || failed.Err.Error() != want {
				t.Errorf("%s (%d): %v\nwant %s (%d): %s", failed.Reason, failed.Code, failed.Err, test.reason, test.code, want)
			}
			// With the failure policy Ignore, another interpreter may answer.
			configuration.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore)
			c = configured(t, caller.Options{}, explore(configuration))
			_, err = c.Health(t.Context(), object())
			if !errors.Is(err, interpreter.ErrNotInterpreted) || reason(t, err).Reason != test.reason {
				t.Errorf("with Ignore: %v", err)
			}
			other := interpreter.FromHandler(
				interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
					r := interpreter.Succeeded("")
					r.Healthy = new(true)
					return r
				}))
			if ok, err := caller.Chain(c, other).Health(t.Context(), object()); !ok || err != nil {
				t.Errorf("the chain: %v, %v", ok, err)
			}
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	entered := make(chan struct{})
	server, ca := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		wait(r)
	}))
	configuration := exploring("c", at(server.URL, ca))
	configuration.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore)
	c := configured(t, caller.Options{}, explore(configuration))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := c.Health(ctx, object())
	if failed := reason(t, err); failed.Reason != caller.ReasonCanceled || !errors.Is(err, context.Canceled) ||
		errors.Is(err, interpreter.ErrNotInterpreted) {
		t.Errorf("%v: who gives up wants no other answer", err)
	}
}

// TestCallIsRetriedIfNotHandled checks that a call is retried only if it did not reach the server, or if the server
// was busy.
func TestCallIsRetriedIfNotHandled(t *testing.T) {
	server, ca := serve(t, healthy(true))
	for _, test := range []struct {
		failures, retries int
		dials             int32
		reason            caller.Reason
	}{{2, 0, 3, ""}, {3, 0, 3, caller.ReasonUnreachable}, {1, -1, 1, caller.ReasonUnreachable}, {5, 5, 6, ""}} {
		var dials atomic.Int32
		registry := prometheus.NewRegistry()
		c := configured(t, caller.Options{Retries: test.retries, RetryDelay: time.Millisecond, MetricsRegisterer: registry,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if int(dials.Add(1)) <= test.failures {
					return nil, errors.New("no route")
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}}, inter(interpreting("c", at(server.URL, ca))))
		_, err := c.Health(t.Context(), object())
		if test.reason == "" && err != nil {
			t.Error(err)
		} else if test.reason != "" {
			if failed := reason(t, err); failed.Reason != test.reason || failed.Err.Error() != "no route" {
				t.Errorf("%v", err)
			}
		}
		if n := dials.Load(); n != test.dials {
			t.Errorf("%d dials, want %d", n, test.dials)
		}
		if n := metertest.Values(t,
			registry)["spokewire_interpreter_caller_retries_total webhook=c/w.c.example.com"]; n != float64(test.dials-1) {
			t.Errorf("%v retries were counted, want %d", n, test.dials-1)
		}
		c.Close()
	}
	var calls atomic.Int32
	busy, ca := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		healthy(true).ServeHTTP(w, r)
	}))
	for _, test := range []struct{ retries, calls, code int }{{-1, 1, 429}, {1, 2, 429}, {2, 3, 0}} {
		calls.Store(0)
		c := configured(t, caller.Options{Retries: test.retries, RetryDelay: time.Millisecond},
			inter(interpreting("c", at(busy.URL, ca))))
		_, err := c.Health(t.Context(), object())
		if test.code == 0 && err != nil || test.code != 0 && (reason(t, err).Reason != caller.ReasonStatus ||
			reason(t, err).Code != test.code) || int(calls.Load()) != test.calls {
			t.Errorf("%d retries: %v after %d calls", test.retries, err, calls.Load())
		}
	}
	calls.Store(0)
	broken, ca := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	c := configured(t, caller.Options{RetryDelay: time.Millisecond}, inter(interpreting("c", at(broken.URL, ca))))
	if _, err := c.Health(t.Context(), object()); reason(t, err).Reason != caller.ReasonInterrupted || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// TestRetryWaitsForRetryAfter checks that a retry waits for the time that the server requests, if the webhook's
// timeout allows it.
func TestRetryWaitsForRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		header string
		calls  int32
		least  time.Duration
	}{
		"seconds":          {http.StatusTooManyRequests, "1", 2, time.Second},
		"unavailable":      {http.StatusServiceUnavailable, "1", 2, time.Second},
		"a date":           {http.StatusTooManyRequests, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 2, 0},
		"no number":        {http.StatusTooManyRequests, "soon", 2, 0},
		"does not ask":     {http.StatusServiceUnavailable, "", 1, 0},
		"over the timeout": {http.StatusTooManyRequests, "3600", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server, ca := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 {
					healthy(true).ServeHTTP(w, r)
					return
				}
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.code)
			}))
			began := time.Now()
			asked := configured(t, caller.Options{RetryDelay: time.Millisecond}, inter(interpreting("c", at(server.URL, ca))))
			_, err := asked.Health(t.Context(), object())
			if c.calls == 1 && reason(t, err).Code != c.code || c.calls == 2 && err != nil {
				t.Error(err)
			}
			if took := time.Since(began); calls.Load() != c.calls || took < c.least {
				t.Errorf("%d calls in %v, want %d in at least %v", calls.Load(), took, c.calls, c.least)
			}
		})
	}
}

// TestOnlyCABundleIsTrusted checks that only the CA bundle is trusted, and that a wrong certificate fails the call.
func TestOnlyCABundleIsTrusted(t *testing.T) {
	server, _ := serve(t, healthy(true))
	other := certtest.New(t)
	c := configured(t, caller.Options{Retries: -1}, inter(interpreting("c", at(server.URL, []byte(other.PEM)))))
	_, err := c.Health(t.Context(), object())
	var verification *tls.CertificateVerificationError
	if failed := reason(t, err); failed.Reason != caller.ReasonUnreachable || !errors.As(err, &verification) ||
		failed.Err.Error() != "tls: failed to verify certificate: x509: certificate signed by unknown authority: "+
			"set clientConfig.caBundle, or Options.RootCAs" {
		t.Errorf("%v", err)
	}
}

// TestServiceIsCalledAtResolvedAddress checks that a service is called at the address of the resolver, with a certificate
// for the service's name.
func TestServiceIsCalledAtResolvedAddress(t *testing.T) {
	ca := certtest.New(t)
	var host, path atomic.Value
	answers := healthy(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		path.Store(r.URL.String())
		answers.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "webhook", "hook.prod.svc").Certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	service := admissionregistrationv1.WebhookClientConfig{CABundle: []byte(ca.PEM),
		Service: &admissionregistrationv1.ServiceReference{Namespace: "prod", Name: "hook", Path: new("/interpret"),
			Port: new(int32(8443))}}
	c := configured(t, caller.Options{ResolveService: func(_ context.Context, namespace, name string, port int32) (string,
		error) {
		if namespace != "prod" || name != "hook" || port != 8443 {
			t.Errorf("%s/%s:%d is asked for", namespace, name, port)
		}
		return server.Listener.Addr().String(), nil
	}}, inter(interpreting("c", service)))
	if ok, err := c.Health(t.Context(), object()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if host.Load() != "hook.prod.svc:8443" || path.Load() != "/interpret?timeout=10s" {
		t.Errorf("the request was to %v %v", host.Load(), path.Load())
	}
}

// TestCredentialsGoOnlyToTheirServer checks that a server receives only its own token and certificate, with the
// current content of the files.
func TestCredentialsGoOnlyToTheirServer(t *testing.T) {
	clients := certtest.New(t)
	folder := t.TempDir()
	clients.Issue(t, "control-plane").Write(t, folder, "tls")
	token := filepath.Join(folder, "token")
	write := func(s string) {
		if err := os.WriteFile(token, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	var seen atomic.Value
	answers := healthy(true)
	pool := clients.Pool()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if len(r.TLS.PeerCertificates) > 0 {
			if _, err := r.TLS.PeerCertificates[0].Verify(
				x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
				name = r.TLS.PeerCertificates[0].Subject.CommonName
			}
		}
		seen.Store(r.Header.Get("Authorization") + "/" + name)
		answers.ServeHTTP(w, r)
	})
	known, other := httptest.NewUnstartedServer(handler), httptest.NewUnstartedServer(handler)
	for _, s := range []*httptest.Server{known, other} {
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		s.StartTLS()
		t.Cleanup(s.Close)
	}
	address := strings.TrimPrefix(known.URL, "https://")
	pem := func(s *httptest.Server) []byte { _, ca := serveCA(s); return ca }
	c := configured(t, caller.Options{Credentials: func(server string) caller.Credentials {
		if server != address {
			return caller.Credentials{}
		}
		return caller.Credentials{BearerTokenFile: token, CertFile: filepath.Join(folder, "tls.crt"),
			KeyFile: filepath.Join(folder, "tls.key")}
	}}, inter(interpreting("a", at(known.URL, pem(known)), kindRule("InterpretHealth", "*", "*", "*")),
		interpreting("b", at(other.URL, pem(other)), kindRule("Prune", "*", "*", "*"))))
	for _, want := range []string{"first", "second"} {
		write(want + "\n")
		if _, err := c.Health(t.Context(), object()); err != nil {
			t.Fatal(err)
		}
		if got := seen.Load(); got != "Bearer "+want+"/control-plane" {
			t.Errorf("the server saw %s", got)
		}
	}
	_, _ = c.Prune(t.Context(), object()) // the handler does not support it
	if got := seen.Load(); got != "/" {
		t.Errorf("another server saw %s", got)
	}
	write("")
	if _, err := c.Health(t.Context(), object()); err == nil || reason(t, err).Reason != caller.ReasonConfiguration ||
		strings.Contains(err.Error(), "second") {
		t.Errorf("an empty token: %v", err)
	}
	if s := fmt.Sprintf("%v %+v %#v", caller.Credentials{BearerToken: "hunter2"},
		caller.Credentials{BearerToken: "hunter2"}, caller.Credentials{BearerToken: "hunter2"}); strings.Contains(s,
		"hunter2") {
		t.Errorf("the token is shown: %s", s)
	}
}

// TestConnectionIsReused checks that one connection serves many calls, also after the configurations are
// set again.
func TestConnectionIsReused(t *testing.T) {
	server, ca := serve(t, healthy(true))
	var dials atomic.Int32
	registry := prometheus.NewRegistry()
	c := configured(t, caller.Options{MetricsRegisterer: registry,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}, inter(interpreting("c", at(server.URL, ca))))
	for range 20 {
		if _, err := c.Health(t.Context(), object()); err != nil {
			t.Fatal(err)
		}
		if err := c.SetConfigurations(inter(interpreting("c", at(server.URL, ca)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls", n)
	}
	metertest.Lint(t, registry)
	metertest.Expect(t, registry, map[string]float64{
		"spokewire_interpreter_caller_calls_total operation=InterpretHealth result=success webhook=c/w.c.example.com": 20,
		"spokewire_interpreter_caller_webhooks protocol=Interpret":                                                    1,
		"spokewire_interpreter_caller_invalid_configurations":                                                         0,
	})
}
