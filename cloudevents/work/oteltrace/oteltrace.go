// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package oteltrace makes OpenTelemetry spans of the path of works from a source to an agent and
// back: from Create to the condition Applied and to the status at the source. [work.Tracer] lists the
// spans.
//
//	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
//	source, err := work.NewSource(t, work.SourceOptions{SourceID: "hub", Tracer: oteltrace.New(provider)})
//
// Spans have these attributes, and no content of works:
//
//   - messaging.system is cloudevents; messaging.operation.name and messaging.operation.type, send or
//     process, are those of the span's event; cloudevents.event_id and cloudevents.event_source
//     identify the event.
//   - k8s.cluster.name is the cluster; spokewire.source, spokewire.work.name, spokewire.work.uid and
//     spokewire.work.version identify the work.
//
// The span of a failed step has the status Error. If the work was not applied, its description is the
// reason of the condition Applied.
//
// The sampler of the provider of the source decides for the whole trace, if the agent's sampler
// depends on the parent, as by default.
package oteltrace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// New returns a tracer that creates spans with a provider. Its span processors must not block:
// use a batching one.
func New(p trace.TracerProvider) work.Tracer {
	return tracer{p.Tracer("github.com/spokewire/sdk-go/cloudevents/work")}
}

// Continue returns a context in which new spans are children of the span of a trace context. It
// returns ctx if the trace context is empty or invalid.
func Continue(ctx context.Context, c work.TraceContext) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State})
}

type tracer struct{ trace.Tracer }

// events has the kind and the messaging.operation.type of the spans of events.
var events = map[string]struct {
	kind            trace.SpanKind
	operation, name string
}{
	work.TracePublishSpec:   {trace.SpanKindProducer, "send", "publish"},
	work.TracePublishStatus: {trace.SpanKindProducer, "send", "publish"},
	work.TraceReceiveSpec:   {trace.SpanKindConsumer, "process", "receive"},
	work.TraceReceiveStatus: {trace.SpanKindConsumer, "process", "receive"},
}

// Start implements [work.Tracer].
func (t tracer) Start(ctx context.Context, s work.TraceStep) (work.TraceContext, func(error)) {
	attributes := []attribute.KeyValue{
		attribute.String("k8s.cluster.name", s.Cluster),
		attribute.String("spokewire.source", s.Source),
		attribute.String("spokewire.work.name", s.Work),
		attribute.String("spokewire.work.uid", string(s.UID)),
		attribute.Int64("spokewire.work.version", s.Version),
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.Began)}
	if e, ok := events[s.Name]; ok {
		options = append(options, trace.WithSpanKind(e.kind))
		attributes = append(attributes,
			attribute.String("messaging.system", "cloudevents"),
			attribute.String("messaging.operation.type", e.operation),
			attribute.String("messaging.operation.name", e.name),
			attribute.String("cloudevents.event_id", s.EventID),
			attribute.String("cloudevents.event_source", s.EventSource),
		)
	}
	switch before := trace.SpanContextFromContext(Continue(context.Background(), s.Parent)); {
	case !trace.SpanContextFromContext(ctx).IsValid():
		ctx = trace.ContextWithRemoteSpanContext(ctx, before)
	case before.IsValid():
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before}))
	}
	ctx, span := t.Tracer.Start(ctx, s.Name, append(options, trace.WithAttributes(attributes...))...)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return work.TraceContext{Parent: carrier["traceparent"], State: carrier["tracestate"]}, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
