// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/examples/internal/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOffWithoutEndpoint: nothing is traced without an endpoint, or if the environment forbids it.
func TestOffWithoutEndpoint(t *testing.T) {
	for _, environment := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range environment {
				t.Setenv(name, value)
			}
			tracer, stop, err := tracing.Start(t.Context(), "hub")
			if tracer != nil || err != nil {
				t.Fatalf("%v: %v, %v", environment, tracer, err)
			}
			stop()
		})
	}
}

// TestErrorsNameTheVariable: a wrong environment does not start the program.
func TestErrorsNameTheVariable(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_RESOURCE_ATTRIBUTES": "a",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			if _, _, err := tracing.Start(t.Context(), "hub"); err == nil || !strings.HasPrefix(err.Error(), variable+": ") {
				t.Errorf("got %v", err)
			}
		})
	}
	tracer, stop, err := tracing.Start(t.Context(), "hub")
	if tracer == nil || err != nil {
		t.Fatal(err)
	}
	stop()
}
