// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use continues the trace of an event.
//
// Prints: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
package main

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/oteltrace"
)

func main() {
	tracer := oteltrace.New(noop.NewTracerProvider())
	next, end := tracer.Start(context.Background(), work.TraceStep{
		Name:   work.TraceApply,
		Parent: work.TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	})
	end(nil)
	fmt.Println(next.Parent)
}
