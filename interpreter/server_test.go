// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
)

// TestStartReturnsAfterRequestInProgress checks that Start returns after the request in progress is answered, and that a second
// Start returns ErrServerStarted.
func TestStartReturnsAfterRequestInProgress(t *testing.T) {
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
		if code, body := w.post(t, "/slow", health(interpreter.ProtocolInterpret, workload)); code != 200 ||
			!strings.Contains(body, `"healthy":true`) {
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

// TestContextEndsAtTimeoutOfCaller checks that the handler's context ends at the timeout of the caller.
func TestContextEndsAtTimeoutOfCaller(t *testing.T) {
	w := start(t, interpreter.ServerOptions{},
		map[string]interpreter.Handler{"/w": interpreter.HandlerFunc(func(ctx context.Context, _ interpreter.Request) interpreter.Response {
			<-ctx.Done()
			return interpreter.Errored(http.StatusGatewayTimeout, ctx.Err())
		})})
	code, body := w.post(t, "/w?timeout=500ms", health(interpreter.ProtocolInterpret, workload))
	wantFailure(t, code, body, http.StatusGatewayTimeout, "the handler did not answer in time")
}

// TestTimeoutIsAnsweredIfHandlerIgnoresContext checks that the caller receives an answer at the timeout. The handler
// keeps its slot and its object until it returns.
func TestTimeoutIsAnsweredIfHandlerIgnoresContext(t *testing.T) {
	leave, objects := make(chan struct{}), make(chan string, 1)
	stuck := interpreter.HandlerFunc(func(_ context.Context, r interpreter.Request) interpreter.Response {
		<-leave
		objects <- string(r.Object.Raw)
		return interpreter.Denied("too late")
	})
	w := start(t, interpreter.ServerOptions{MaxConcurrent: 1},
		map[string]interpreter.Handler{"/stuck": stuck, "/w": workloads})
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
			"1 requests are in progress, which is the limit, and 1 of their handlers did not return at their timeout: try again",
			"")
	}
	close(leave)
}

// TestRequestsOverLimitAreRejected checks that requests over the limit are answered immediately, for any body size
// and handler. Probes do not count.
func TestRequestsOverLimitAreRejected(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
		entered <- struct{}{}
		<-leave
		return interpreter.Denied("done")
	})
	registry := prometheus.NewRegistry()
	w := start(t, interpreter.ServerOptions{MaxConcurrent: 2, MetricsRegisterer: registry},
		map[string]interpreter.Handler{"/slow": slow, "/w": workloads})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			code, body := w.post(t, "/slow", health(interpreter.ProtocolInterpret, workload))
			wantFailure(t, code, body, http.StatusForbidden, "done")
		})
		<-entered
	}
	code, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload))
	wantStatus(t, code, body, http.StatusTooManyRequests, "2 requests are in progress, which is the limit: try again", "")
	if code, _ := w.do(t, http.MethodGet, "/readyz", "", ""); code != 200 {
		t.Errorf("a probe gets HTTP %d", code)
	}
	close(leave)
	group.Wait()
	if code, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload)); code != 200 {
		t.Errorf("when there is a place: HTTP %d %s", code, body)
	}
	if n := metertest.Values(t,
		registry)["spokewire_interpreter_server_requests_total code=429 handler=/w operation=none"]; n != 1 {
		t.Errorf("%v refused requests were counted: %v", n, metertest.Values(t, registry))
	}
}

func TestInvalidServerOptions(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		options interpreter.ServerOptions
		want    string
	}{
		{interpreter.ServerOptions{}, "invalid ServerOptions.CertDir: required: callers use TLS"},
		{interpreter.ServerOptions{CertDir: "x", Addr: "nowhere"},
			`invalid ServerOptions.Addr: "nowhere": must be host:port: address nowhere: missing port in address`},
		{interpreter.ServerOptions{CertDir: "x", CertName: "a/b"},
			`invalid ServerOptions.CertName: "a/b": must be the name of a file in CertDir`},
		{interpreter.ServerOptions{CertDir: "x", MaxBytes: -1}, "invalid ServerOptions.MaxBytes: -1: must not be negative"},
		{interpreter.ServerOptions{CertDir: "x", MaxConcurrent: -1},
			"invalid ServerOptions.MaxConcurrent: -1: must not be negative"},
		{interpreter.ServerOptions{CertDir: "x", Timeout: -1}, "invalid ServerOptions.Timeout: -1ns: must not be negative"},
	} {
		if _, err := interpreter.NewServer(test.options); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	s, err := interpreter.NewServer(interpreter.ServerOptions{CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "certificate: open "+filepath.Join(folder, "tls.crt")) {
		t.Errorf("without a certificate: %v", err)
	}
	s, err = interpreter.NewServer(interpreter.ServerOptions{CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"w":        `register "w": a path must begin with /, without {}%?#, spaces and control characters`,
		"/healthz": `register "/healthz": already registered`,
	} {
		if err := interpreter.Register(s, path, workloads); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := interpreter.Register(nil, "/w", workloads); err == nil || err.Error() != `register "/w": the server is nil` {
		t.Error(err)
	}
	if err := s.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `register "/healthz": already registered`) {
		t.Errorf("Start does not return the error of Register: %v", err)
	}
}

// TestObjectsAreNotLogged checks that the data of objects is never in the log.
func TestObjectsAreNotLogged(t *testing.T) {
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

// byValue is not a valid type for a HandlerFor, because no object can be decoded into it.
type byValue struct{ *Workload }

// TestRegisterRejectsUnusableHandlers checks that a handler which could never answer a request is rejected at
// registration.
func TestRegisterRejectsUnusableHandlers(t *testing.T) {
	const path = "a path must begin with /, without {}%?#, spaces and control characters"
	healthOf := func(h interpreter.Handler) func(string) (string, interpreter.Handler) {
		return func(p string) (string, interpreter.Handler) { return p, h }
	}
	good := healthOf(workloads)
	for _, test := range []struct {
		path    string
		handler func(string) (string, interpreter.Handler)
		want    string
	}{
		{"/{w}", good, `register "/{w}": ` + path},
		{"/a%2Fb", good, `register "/a%2Fb": ` + path},
		{"/a\nb", good, `register "/a\nb": ` + path},
		{"/\xff", good, `register "/\xff": ` + path},
		{"/a//b", good, `register "/a//b": not a clean path: use /a/b`},
		{"/a/../b", good, `register "/a/../b": not a clean path: use /b`},
		{"/./", good, `register "/./": not a clean path: use /`},
		{"//", good, `register "//": not a clean path: use /`},
		{"/nil", healthOf(nil), `register "/nil": the handler is nil`},
		{"/value", healthOf(interpreter.HandlerFor[byValue]{}),
			`register "/value": invalid HandlerFor[interpreter_test.byValue]: the type must be a pointer to a struct`},
		{"/interface", healthOf(&interpreter.HandlerFor[metav1.Object]{}),
			`register "/interface": invalid HandlerFor[v1.Object]: the type must be a pointer to a struct`},
		{"/", good, ""},
		{"/below/", good, ""},
		{"/é", good, ""},
	} {
		s, err := interpreter.NewServer(interpreter.ServerOptions{CertDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		p, h := test.handler(test.path)
		if err := interpreter.Register(s, p, h); (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
	answer := httptest.NewRecorder()
	interpreter.NewHandler(interpreter.HandlerFor[byValue]{},
		interpreter.HandlerOptions{Name: "a\xff", MetricsRegisterer: prometheus.NewRegistry()}).
		ServeHTTP(answer, newRequest(t, health(interpreter.ProtocolInterpret, workload)))
	wantFailure(t, answer.Code, answer.Body.String(), 500,
		"invalid HandlerFor[interpreter_test.byValue]: the type must be a pointer to a struct")
}
