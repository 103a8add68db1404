// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// health returns a request for the health of an object, in the given protocol.
func health(p interpreter.Protocol, object string) string {
	operation := "InterpretHealth"
	if p == interpreter.ProtocolExplore {
		operation = "ExploreHealthy"
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"u1","kind":{"group":"example.com","version":"v1","kind":"Workload"},"name":"w","operation":%q,"object":%s}}`, p.Kind(), operation, object)
}

const workload = `{"apiVersion":"example.com/v1","kind":"Workload","metadata":{"name":"w"},"spec":{"replicas":1},"status":{"ready":1}}`

// TestInvalidRequestsAreRejected checks the exact error for requests that are malformed or cannot be answered. The
// server keeps serving afterwards.
func TestInvalidRequestsAreRejected(t *testing.T) {
	w := start(t, interpreter.ServerOptions{MaxBytes: 4096}, map[string]interpreter.Handler{"/w": workloads})
	const j = "application/json"
	for _, p := range []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret} {
		good := health(p, workload)
		operation := map[interpreter.Protocol]string{interpreter.ProtocolExplore: "ExploreHealthy",
			interpreter.ProtocolInterpret: "InterpretHealth"}[p]
		tests := []struct {
			name, method, contentType, body string
			code                            int
			message                         string
			uid                             string // in the answer
			failed                          bool   // the answer is a failed response, if the protocol has one
		}{
			{"GET", http.MethodGet, "", "", 405, "the method is GET: expected POST", "", false},
			{"wrong content type", http.MethodPost, "text/plain", good, 415,
				`the content type is "text/plain": expected application/json`, "", false},
			{"empty body", http.MethodPost, j, "", 400, "the body is empty", "", false},
			{"empty object", http.MethodPost, j, "{}", 400,
				"kind is missing: expected ExploreReview or ResourceInterpreterContext", "", false},
			{"no request", http.MethodPost, j, fmt.Sprintf(`{"kind":%q,"apiVersion":"config.karmada.io/v1alpha1"}`, p.Kind()),
				400, "request is missing: " + p.Kind() + " requires it", "", false},
			{"unknown kind", http.MethodPost, j, strings.Replace(good, p.Kind(), "AdmissionReview", 1), 400,
				`kind is "AdmissionReview": expected ExploreReview or ResourceInterpreterContext`, "u1", false},
			{"unknown version", http.MethodPost, j, strings.Replace(good, "config.karmada.io/v1alpha1", "config.karmada.io/v2",
				1), 400,
				`apiVersion is "config.karmada.io/v2": expected config.karmada.io/v1alpha1`, "u1", false},
			{"unknown operation", http.MethodPost, j, strings.Replace(good, operation, "Guess", 1), 400,
				fmt.Sprintf(`request.operation "Guess" is not an operation of the %s protocol`, p), "u1", true},
			{"body over the limit", http.MethodPost, j, good + strings.Repeat(" ", 4096), 413,
				"the body is over the limit of 4096 bytes", "", false},
			{"invalid JSON", http.MethodPost, j, good[:len(good)-1], 400, "the body is not JSON: unexpected end of JSON input",
				"", false},
			{"object of another type", http.MethodPost, j, health(p, strings.Replace(workload, "Workload", "Secret", 1)), 400,
				"request.object is a example.com/v1 Secret: expected example.com/v1 Workload as in the request", "u1", true},
			{"handler panic", http.MethodPost, j, health(p, strings.Replace(workload, `"w"`, `"panics"`, 1)), 500,
				"the handler panicked: see the log of the webhook", "u1", true},

			{"kind of another type", http.MethodPost, j, strings.ReplaceAll(good, "Workload", "Secret"), 400,
				"request.object is a example.com/v1 Secret: the handler accepts the kind Workload: " +
					"set HandlerFor.Kinds for others", "u1", true},
			{"object that does not fit", http.MethodPost, j,
				health(p, strings.Replace(workload, `"replicas":1`, `"replicas":"1"`, 1)), 400,
				"request.object does not fit *interpreter_test.Workload: json: cannot unmarshal string into Go struct field " +
					"WorkloadSpec.spec.replicas of type int32", "u1", true},
			{"no object", http.MethodPost, j, health(p, "null"), 400, "request.object is missing or not a JSON object", "u1",
				true},
			{"neither object nor kind", http.MethodPost, j,
				fmt.Sprintf(`{"kind":%q,"apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"u1","operation":%q}}`, p.Kind(),
					operation), 400,
				"request.object is missing or not a JSON object", "u1", true},
			{"handler error", http.MethodPost, j, health(p, strings.Replace(workload, `"w"`, `"fails"`, 1)), 500, "no idea",
				"u1", true},
			{"no UID", http.MethodPost, j, strings.Replace(good, `"uid":"u1",`, "", 1), 400, "request.uid is missing", "",
				false},
			{"replicas of another type", http.MethodPost, j, strings.Replace(good, `"name":"w"`, `"name":1`, 1), 400,
				"request cannot be decoded: json: cannot unmarshal number into Go struct field " +
					map[interpreter.Protocol]string{interpreter.ProtocolExplore: "ExploreRequest",
						interpreter.ProtocolInterpret: "ResourceInterpreterRequest"}[p] + ".name of type string", "u1", false},
		}
		for _, test := range tests {
			t.Run(string(p)+"/"+test.name, func(t *testing.T) {
				code, body := w.do(t, test.method, "/w", test.contentType, test.body)
				if p == interpreter.ProtocolInterpret && test.failed {
					wantFailure(t, code, body, test.code, test.message)
				} else {
					wantStatus(t, code, body, test.code, test.message, test.uid)
				}
				if code, body = w.post(t, "/w", good); code != 200 || !strings.Contains(body, `"healthy":true`) {
					t.Errorf("afterwards a good request gets HTTP %d %s", code, body)
				}
			})
		}
	}
}

// wantStatus checks that the answer has the HTTP status wantCode and is a metav1.Status.
func wantStatus(t *testing.T, code int, body string, wantCode int, message, uid string) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if code != wantCode || s.Code != int32(wantCode) || s.Kind != "Status" || s.Status != "Failure" {
		t.Errorf("HTTP %d: %s, want %d", code, body, wantCode)
	}
	if s.Message != message {
		t.Errorf("got  %s\nwant %s", s.Message, message)
	}
	got := ""
	if s.Details != nil {
		got = string(s.Details.UID)
	}
	if got != uid {
		t.Errorf("the UID is %q, want %q", got, uid)
	}
}

// wantFailure checks that the answer is a response that is not successful.
func wantFailure(t *testing.T, code int, body string, wantCode int, message string) {
	t.Helper()
	var c v1alpha1.ResourceInterpreterContext
	if err := json.Unmarshal([]byte(body), &c); err != nil || code != 200 || c.Response == nil ||
		c.Response.Status == nil {
		t.Fatalf("HTTP %d %s: %v", code, body, err)
	}
	if c.Kind != "ResourceInterpreterContext" || c.Response.UID != "u1" || c.Response.Successful ||
		c.Response.Status.Code != int32(wantCode) {
		t.Errorf("%s, want the code %d and the UID u1", body, wantCode)
	}
	if c.Response.Status.Message != message {
		t.Errorf("got  %s\nwant %s", c.Response.Status.Message, message)
	}
}

// TestInvalidAnswersAreNotSent checks that an answer is not sent if no caller could use it.
func TestInvalidAnswersAreNotSent(t *testing.T) {
	answer := func(change func(*interpreter.Response)) interpreter.Handler {
		return interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
			response := interpreter.Succeeded("")
			change(&response)
			return response
		})
	}
	tests := []struct {
		name, message string
		handler       interpreter.Handler
	}{
		{"empty response", "invalid answer of the handler: response.status is missing: a failed request needs a message or a code",
			interpreter.HandlerFunc(func(context.Context,
				interpreter.Request) interpreter.Response {
				return interpreter.Response{}
			})},
		{"field of another operation",
			"invalid answer of the handler: response.healthy is missing: the operation requires it",
			answer(func(r *interpreter.Response) { r.Replicas = new(int32(1)) })},
		{"denied", "not here",
			interpreter.HandlerFunc(func(context.Context,
				interpreter.Request) interpreter.Response {
				return interpreter.Denied("not here")
			})},
		{"unsupported operation", "request.operation InterpretHealth is not implemented by the handler for Workload",
			interpreter.HandlerFor[*Workload]{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, interpreter.ServerOptions{}, map[string]interpreter.Handler{"/w": test.handler})
			code := map[string]int{"denied": 403, "unsupported operation": 501}[test.name]
			if code == 0 {
				code = 500
			}
			status, body := w.post(t, "/w", health(interpreter.ProtocolInterpret, workload))
			wantFailure(t, status, body, code, test.message)
			status, body = w.post(t, "/w", health(interpreter.ProtocolExplore, workload))
			wantStatus(t, status, body, code, test.message, "u1")
		})
	}
}

// panicking returns a handler that panics with a value.
func panicking(value any) interpreter.Handler {
	return interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response { panic(value) })
}

// TestPanicIsAnswered checks that the caller receives an answer whatever value a handler panics with. The
// request counts as ended.
func TestPanicIsAnswered(t *testing.T) {
	for name, h := range map[string]interpreter.Handler{
		"abort":       panicking(http.ErrAbortHandler), // as net/http's reverse proxy does
		"nil":         panicking(nil),
		"nil error":   panicking((*interpreter.RequestError)(nil)), // its methods panic
		"slice":       panicking([]string{"cannot be compared"}),
		"no function": interpreter.HandlerFunc(nil),
		"encoding": interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
			return interpreter.Errored(500, (*interpreter.RequestError)(nil))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			const want = "the handler panicked: see the log of the webhook"
			registry, answer := prometheus.NewRegistry(), httptest.NewRecorder()
			interpreter.NewHandler(h, interpreter.HandlerOptions{MetricsRegisterer: registry}).
				ServeHTTP(answer, newRequest(t, health(interpreter.ProtocolInterpret, workload)))
			wantFailure(t, answer.Code, answer.Body.String(), 500, want)
			metertest.Expect(t, registry, map[string]float64{
				"spokewire_interpreter_server_requests_in_flight handler=default":                                0,
				"spokewire_interpreter_server_requests_total code=500 handler=default operation=InterpretHealth": 1,
			})
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Workload"}}
			_, err := interpreter.FromHandler(h).Health(t.Context(), object)
			if err == nil || err.Error() != "refused (500): "+want {
				t.Errorf("in the same process: %v", err)
			}
		})
	}
}

// TestCompressedBodyIsRejected checks that a compressed body is reported as compressed, not as malformed JSON.
func TestCompressedBodyIsRejected(t *testing.T) {
	for coding, want := range map[string]int{"gzip": 415, "identity": 200} {
		r, answer := newRequest(t, health(interpreter.ProtocolInterpret, workload)), httptest.NewRecorder()
		r.Header.Set("Content-Encoding", coding)
		interpreter.NewHandler(workloads, interpreter.HandlerOptions{}).ServeHTTP(answer, r)
		if want == 415 {
			wantStatus(t, answer.Code, answer.Body.String(), want,
				`the content encoding is "gzip": the body must not be compressed`, "")
		} else if answer.Code != want {
			t.Errorf("%s: HTTP %d %s", coding, answer.Code, answer.Body)
		}
	}
}
