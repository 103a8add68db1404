// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// spanKey is the context key for a span, as in a tracing library.
type spanKey struct{}

// span returns a context with a trace and its traceparent.
func span(ctx context.Context, n int) (context.Context, string) {
	id := fmt.Sprintf("00-%032x-%016x-01", n, n)
	return context.WithValue(ctx, spanKey{}, id), id
}

func spanOf(ctx context.Context) string {
	id, _ := ctx.Value(spanKey{}).(string)
	return id
}

// TestTraceArrivesWithWrite: the trace of each write arrives with the written work or status, in
// both directions and both formats.
func TestTraceArrivesWithWrite(t *testing.T) {
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, agent has own: %t", profile.Name(), own), func(t *testing.T) {
				inScene(t, func(s *scene) { tracesTravel(s, profile, own) })
			})
		}
	}
}

func tracesTravel(s *scene, profile codec.Profile, own bool) {
	t, hook := s.t, func(context.Context) string { return "" }
	if own {
		hook = spanOf
	}
	h := s.source(work.SourceOptions{Profile: profile, TraceParent: spanOf})
	a := s.agent(work.AgentOptions{ClusterName: "cluster1", Profile: profile, TraceParent: hook})
	h.complete()
	s.settle()
	expect := func(what, atAgent, atSource string) {
		t.Helper()
		s.settle()
		if got := a.TraceParent("web"); got != atAgent {
			t.Errorf("%s: the agent has %q, not %q", what, got, atAgent)
		}
		if got := h.TraceParent("cluster1", "web"); got != atSource {
			t.Errorf("%s: the source has %q, not %q", what, got, atSource)
		}
	}
	expect("no work", "", "")

	ctx, created := span(t.Context(), 1)
	if _, err := h.works("cluster1").Create(ctx, newWork("web", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.settle()
	a.setFinalizers("web", "example.com/f")
	ctx, applied := span(t.Context(), 2)
	patch := []byte(`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"R","message":"1","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if _, err := a.works().Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if !own {
		applied = created
	}
	expect("created and applied", created, applied)

	h.setValue("cluster1", "web", "2") // without a trace
	s.settle()
	a.report("web", "2")
	expect("written without a trace", "", "")

	ctx, deleted := span(t.Context(), 3)
	if err := h.works("cluster1").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("being deleted", deleted, "")
	a.setFinalizers("web")
	expect("gone", "", "")
}

// TestInvalidTraceparentIsNotSent: an invalid traceparent is not sent.
func TestInvalidTraceparentIsNotSent(t *testing.T) {
	for _, bad := range []string{"x", "00-1-2-01", "00-" + string(make([]byte, 32)) + "-0000000000000001-01", "\xff",
		"00-00000000000000000000000000000001-0000000000000001-01\n"} {
		inScene(t, func(s *scene) {
			h := s.source(work.SourceOptions{TraceParent: func(context.Context) string { return bad }})
			a := s.agent(work.AgentOptions{})
			h.complete()
			h.create("cluster1", newWork("web", "1"))
			s.settle()
			if got := a.TraceParent("web"); got != "" || valueOf(s.t, a.get("web")) != "1" {
				s.t.Errorf("%q arrives as %q", bad, got)
			}
		})
	}
}
