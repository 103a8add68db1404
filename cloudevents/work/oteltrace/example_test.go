// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package oteltrace_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/oteltrace"
)

// A provider usually has a batching processor and an OTLP exporter.
func ExampleNew() {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{
		SourceID: "hub", Tracer: oteltrace.New(provider),
	})
	if err != nil {
		panic(err)
	}
	ctx, request := provider.Tracer("example").Start(context.Background(), "request")
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, w, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	span := exporter.GetSpans()[0]
	fmt.Println(span.Name, span.Parent.SpanID() == request.SpanContext().SpanID())
	// Output: create work true
}
