// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector is an OTLP receiver over gRPC.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []span
}

// span is a span with the service that exported it.
type span struct {
	*tracev1.Span
	service string
}

// String returns the name of the span and of its service.
func (s span) String() string { return s.Name + " (" + s.service + ")" }

// collect starts a collector until the end of the test, and returns its address.
func collect(t *testing.T) (c *collector, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &collector{}, grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, listener.Addr().String()
}

// Export implements the service.
func (c *collector) Export(
	_ context.Context, r *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		service := "unknown"
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{s, service})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// has reports whether the path of a span from its root has exactly these spans.
func (c *collector) has(path ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]span{}
	for _, s := range c.spans {
		byID[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.SpanId)] = s
	}
	var all []string
	for _, s := range c.spans {
		got := []string{s.String()}
		for up := s; len(up.ParentSpanId) > 0; {
			before, ok := byID[hex.EncodeToString(up.TraceId)+hex.EncodeToString(up.ParentSpanId)]
			if !ok {
				got = append(got, "a span that was not exported")
				break
			}
			got, up = append(got, before.String()), before
		}
		slices.Reverse(got)
		if slices.Equal(got, path) {
			return nil
		}
		all = append(all, strings.Join(got, " > "))
	}
	return fmt.Errorf("no span has the path %s, but these: %s", strings.Join(path, " > "), strings.Join(all, "\n"))
}

// text returns all spans.
func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, s := range c.spans {
		out.WriteString(s.Span.String() + "\n")
	}
	return out.String()
}
