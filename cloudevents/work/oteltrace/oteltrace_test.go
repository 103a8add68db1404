// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package oteltrace_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/oteltrace"
)

var parent = work.TraceContext{
	Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=x",
}

// started returns the span of a step, and its trace context.
func started(
	ctx context.Context, t *testing.T, s work.TraceStep, failed error,
) (tracetest.SpanStub, work.TraceContext) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	out, end := oteltrace.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))).Start(ctx, s)
	end(failed)
	return exporter.GetSpans()[0], out
}

// TestSpanHasStep: the span of an event has the kind and the attributes of the conventions.
func TestSpanHasStep(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	span, out := started(t.Context(), t, work.TraceStep{
		Name: work.TraceReceiveSpec, Source: "hub", Cluster: "c1", Work: "web", UID: "u", Version: 7,
		EventID: "e1", EventSource: "hub", Parent: parent, Began: began,
	}, nil)
	got := map[string]any{}
	for _, a := range span.Attributes {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	want := map[string]any{
		"messaging.system": "cloudevents", "messaging.operation.type": "process", "messaging.operation.name": "receive",
		"cloudevents.event_id": "e1", "cloudevents.event_source": "hub", "k8s.cluster.name": "c1",
		"spokewire.source": "hub", "spokewire.work.name": "web", "spokewire.work.uid": "u",
		"spokewire.work.version": int64(7),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes: -want +got\n%s", diff)
	}
	if span.Name != "receive spec" || span.SpanKind != trace.SpanKindConsumer || !span.StartTime.Equal(began) ||
		span.Parent.SpanID().String() != parent.Parent[36:52] || span.Status.Code != codes.Unset {
		t.Errorf("span %+v", span)
	}
	if want := "00-" + parent.Parent[3:35] + "-" + span.SpanContext.SpanID().String() + "-01"; out.Parent != want ||
		out.State != parent.State {
		t.Errorf("the next step follows %+v, not %s", out, want)
	}
}

// TestSpanOfWriteIsChildOfContext: the span in the context of a write is the parent. The previous
// step is a link.
func TestSpanOfWriteIsChildOfContext(t *testing.T) {
	ctx, request := sdktrace.NewTracerProvider().Tracer("").Start(t.Context(), "request")
	span, _ := started(ctx, t, work.TraceStep{Name: work.TraceApply, Parent: parent}, errors.New("Forbidden"))
	if span.Parent.SpanID() != request.SpanContext().SpanID() || len(span.Links) != 1 ||
		span.Links[0].SpanContext.TraceID().String() != parent.Parent[3:35] {
		t.Errorf("span %+v", span)
	}
	if span.Status.Code != codes.Error || span.Status.Description != "Forbidden" ||
		span.SpanKind != trace.SpanKindInternal {
		t.Errorf("span %+v", span)
	}
	if span, _ := started(t.Context(), t, work.TraceStep{Name: work.TraceCreate}, nil); span.Parent.IsValid() {
		t.Errorf("the first span has a parent: %+v", span)
	}
}

// TestTraceThatIsNotSampledContinues: the trace context travels on, and so does that of a provider
// without an SDK.
func TestTraceThatIsNotSampledContinues(t *testing.T) {
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	out, end := oteltrace.New(never).Start(t.Context(), work.TraceStep{Name: work.TraceCreate})
	end(nil)
	if !strings.HasSuffix(out.Parent, "-00") {
		t.Errorf("the context of a trace that is not sampled is %+v", out)
	}
	none := oteltrace.New(noop.NewTracerProvider())
	if out, _ := none.Start(t.Context(), work.TraceStep{Parent: parent}); out != parent {
		t.Errorf("without an SDK the context is %+v", out)
	}
}

// TestContinue: spans of a controller become children. An invalid trace context changes nothing.
func TestContinue(t *testing.T) {
	got := trace.SpanContextFromContext(oteltrace.Continue(t.Context(), parent))
	if got.SpanID().String() != parent.Parent[36:52] || got.TraceState().String() != parent.State || !got.IsRemote() {
		t.Errorf("got %+v", got)
	}
	for _, invalid := range []work.TraceContext{{}, {Parent: "x"}} {
		if got := oteltrace.Continue(t.Context(), invalid); got != t.Context() {
			t.Errorf("%+v continues %v", invalid, got)
		}
	}
}
