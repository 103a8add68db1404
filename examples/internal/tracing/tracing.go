// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracing exports the spans of a program to an OpenTelemetry collector, as the standard
// OTEL_* environment variables configure it. Without an endpoint nothing is traced.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/oteltrace"
	"github.com/spokewire/sdk-go/internal/quietlog"
)

// stopTimeout bounds how long the last spans are exported.
const stopTimeout = 5 * time.Second

// Start returns a tracer that exports spans over OTLP, and a function that exports the last spans. The
// tracer is nil if no endpoint is set. OTEL_SERVICE_NAME defaults to the name of the program.
// Failures of the export are logged.
func Start(ctx context.Context, program string) (_ work.Tracer, stop func(), _ error) {
	if of("ENDPOINT") == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" ||
		os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, func() {}, nil
	}
	if protocol := cmp.Or(of("PROTOCOL"), "grpc"); protocol != "grpc" {
		return nil, nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q: must be grpc, port 4317 of most collectors", protocol)
	}
	log, failures := klog.FromContext(ctx), quietlog.New("Failed to export traces", "", clock.RealClock{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { failures.Error(log, err, "", "") }))
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", program)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	return oteltrace.New(provider), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// of returns the value of an exporter's variable for traces.
func of(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}
