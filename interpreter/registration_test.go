// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// byValue is not a valid type for a HandlerFor, because no object can be decoded into it.
type byValue struct{ *Workload }

// TestRegistrations checks that a handler which could never answer a request is rejected at
// registration.
func TestRegistrations(t *testing.T) {
	const path = "a path begins with / and has none of {}%?#, no space and no control character"
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
		{"/a//b", good, `register "/a//b": no request has this path: write /a/b`},
		{"/a/../b", good, `register "/a/../b": no request has this path: write /b`},
		{"/./", good, `register "/./": no request has this path: write /`},
		{"//", good, `register "//": no request has this path: write /`},
		{"/nil", healthOf(nil), `register "/nil": the handler is nil`},
		{"/value", healthOf(interpreter.HandlerFor[byValue]{}), `register "/value": HandlerFor[interpreter_test.byValue] needs a pointer to a struct`},
		{"/interface", healthOf(&interpreter.HandlerFor[metav1.Object]{}), `register "/interface": HandlerFor[v1.Object] needs a pointer to a struct`},
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
	interpreter.NewHandler(interpreter.HandlerFor[byValue]{}, interpreter.HandlerOptions{Name: "a\xff", MetricsRegisterer: prometheus.NewRegistry()}).
		ServeHTTP(answer, newRequest(t, health(interpreter.ProtocolInterpret, workload)))
	wantFailure(t, answer.Code, answer.Body.String(), 500, "HandlerFor[interpreter_test.byValue] needs a pointer to a struct")
}

// TestCompressed checks that a compressed body is reported as compressed, not as malformed JSON.
func TestCompressed(t *testing.T) {
	for coding, want := range map[string]int{"gzip": 415, "identity": 200} {
		r, answer := newRequest(t, health(interpreter.ProtocolInterpret, workload)), httptest.NewRecorder()
		r.Header.Set("Content-Encoding", coding)
		interpreter.NewHandler(workloads, interpreter.HandlerOptions{}).ServeHTTP(answer, r)
		if want == 415 {
			wantStatus(t, answer.Code, answer.Body.String(), want, `the content encoding is "gzip": the body must not be compressed`, "")
		} else if answer.Code != want {
			t.Errorf("%s: HTTP %d %s", coding, answer.Code, answer.Body)
		}
	}
}

// TestPlainInts checks an object that was made in Go with an int. JSON does not distinguish it from
// an int64.
func TestPlainInts(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Workload", "spec": map[string]any{"replicas": 3}}}
	q := interpreter.Query{Operation: v1alpha1.InterpreterOperationPrune, Object: object}
	r := interpreter.Succeeded("")
	answer, err := q.Answer(interpreter.ProtocolInterpret, &r)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := unstructured.NestedInt64(answer.Object.Object, "spec", "replicas"); n != 3 || err != nil {
		t.Errorf("got %v, %v", answer.Object, err)
	}
}

// TestProblemsReturn checks that a failure to load the certificate is counted once while it lasts,
// and counted again when it returns.
func TestProblemsReturn(t *testing.T) {
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
		if got := metertest.Values(t, registry)["spokewire_interpreter_server_certificate_reloads_total result=failure"]; got != failures {
			t.Errorf("%s: %v failures were counted, want %v", state, got, failures)
		}
	}
}
