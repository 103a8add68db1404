// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/testing/metertest"
	"github.com/spokewire/sdk-go/interpreter"
)

// panicking returns a handler that panics with a value.
func panicking(value any) interpreter.Handler {
	return interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response { panic(value) })
}

// TestPanics checks that the caller receives an answer whatever value a handler panics with. The
// request counts as ended.
func TestPanics(t *testing.T) {
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
			const want = "the handler panicked: the log of the webhook says where"
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
