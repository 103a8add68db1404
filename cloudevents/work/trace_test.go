// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// spans is a [work.Tracer] that keeps its spans.
type spans struct {
	mu    sync.Mutex
	all   []*span
	state string // of all trace contexts
	uids  bool   // spans have the UID: the profile ManifestBundle does not send it
}

type span struct {
	work.TraceStep
	id, err string
	ended   bool
}

// spanKey is the context key of the trace context of a span, as in a tracing library.
type spanKey struct{}

func within(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, spanKey{}, traceID(n))
}

func traceID(n int) string { return fmt.Sprintf("00-%032x-%016x-01", 1, n) }

func (s *spans) Start(ctx context.Context, step work.TraceStep) (work.TraceContext, func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := ctx.Value(spanKey{}).(string); ok {
		step.Parent.Parent = id
	}
	one := &span{TraceStep: step, id: traceID(len(s.all) + 1)}
	s.all = append(s.all, one)
	return work.TraceContext{Parent: one.id, State: s.state}, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.ended {
			panic("a span ends twice: " + one.Name)
		}
		one.ended = true
		if err != nil {
			one.err = err.Error()
		}
	}
}

// take returns the spans since the last call, each as a line with the path from the root.
func (s *spans) take(t *testing.T) (lines []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]string{"": "", traceID(99): "request"}
	for _, one := range s.all {
		before, ok := names[one.Parent.Parent]
		if !ok {
			before = "unknown parent"
		}
		line := strings.TrimPrefix(before+" > "+one.Name, " > ")
		names[one.id] = line
		if one.Source != "hub" || one.Cluster != "cluster1" || one.Work != "web" || one.Version == 0 ||
			one.UID == "" && s.uids {
			t.Errorf("span %q is of another work: %+v", one.Name, one.TraceStep)
		}
		event := strings.HasPrefix(one.Name, "publish") || strings.HasPrefix(one.Name, "receive")
		if event != (one.EventID != "") || event != (one.EventSource != "") {
			t.Errorf("span %q has the event %q of %q", one.Name, one.EventID, one.EventSource)
		}
		if !one.ended {
			line += ", not ended"
		}
		if one.err != "" {
			line += ", " + one.err
		}
		lines = append(lines, line)
	}
	s.all = nil
	return lines
}

func appliedAt(generation int64, status, reason string) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Applied","status":%q,"reason":%q,"message":"secret",`+
		`"observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status, reason, generation)
}

// TestSpansOfWriteFormOneTree: each write, its application and its status are one tree, in both
// formats. Later statuses and events that are sent again have no spans.
func TestSpansOfWriteFormOneTree(t *testing.T) {
	for _, profile := range []codec.Profile{codec.ManifestWork, codec.ManifestBundle} {
		t.Run(profile.Name(), func(t *testing.T) {
			inScene(t, func(s *scene) { spansOfWrites(s, profile) })
		})
	}
}

// tree returns the lines of spans, each of which is the parent of the next.
func tree(names ...string) (lines []string) {
	for i := range names {
		lines = append(lines, strings.Join(names[:i+1], " > "))
	}
	return lines
}

func spansOfWrites(s *scene, profile codec.Profile) {
	t, tracer := s.t, &spans{state: "vendor=x", uids: profile == codec.ManifestWork}
	h := s.source(work.SourceOptions{Profile: profile, Tracer: tracer})
	a := s.agent(work.AgentOptions{ClusterName: "cluster1", Profile: profile, Tracer: tracer})
	h.complete()
	s.settle()
	expect := func(what string, want ...string) {
		t.Helper()
		s.settle()
		if diff := cmp.Diff(want, tracer.take(t)); diff != "" {
			t.Errorf("%s: -want +got\n%s", what, diff)
		}
	}
	patch := func(ctx context.Context, content []byte) {
		t.Helper()
		if _, err := a.works().Patch(ctx, "web", types.MergePatchType, content, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := h.works("cluster1").Create(
		within(t.Context(), 99), newWork("web", "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got := a.TraceContext("web"); got.Parent != traceID(3) || got.State != "vendor=x" {
		t.Errorf("the controller continues %+v", got)
	}
	a.setFinalizers("web", "example.com/f")
	patch(t.Context(), appliedAt(1, "True", "R"))
	s.settle()
	if got := h.TraceContext("cluster1", "web"); got.Parent != traceID(6) || got.State != "vendor=x" {
		t.Errorf("the source continues %+v", got)
	}
	expect("created and applied", tree("request", "create work", "publish spec", "receive spec", "apply work",
		"publish status", "receive status")[1:]...)
	patch(t.Context(), []byte(`{"status":{"conditions":[{"type":"Available","status":"True","reason":"R","message":"",`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))
	expect("a later status")

	h.setValue("cluster1", "web", "2")
	s.settle()
	patch(t.Context(), appliedAt(2, "False", "Forbidden"))
	expect("updated, and not applied", "update work", "update work > publish spec",
		"update work > publish spec > receive spec",
		"update work > publish spec > receive spec > apply work, Forbidden",
		"update work > publish spec > receive spec > apply work > publish status",
		"update work > publish spec > receive spec > apply work > publish status > receive status, Forbidden")

	if err := h.works("cluster1").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.settle()
	patch(t.Context(), []byte(`{"status":{"conditions":[{"type":"Deleted","status":"True","reason":"R","message":"",`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)) // as OCM's agent does it first
	a.setFinalizers("web")
	expect("deleted", tree("delete work", "publish spec", "receive spec", "remove work", "publish status",
		"receive status")...)
}

// TestInvalidTraceContextIsNotSent: an invalid trace context of a tracer is not sent.
func TestInvalidTraceContextIsNotSent(t *testing.T) {
	for _, bad := range []string{"x", "00-1-2-01", traceID(1) + "\n", "\xff", strings.Repeat("0", 1<<17)} {
		inScene(t, func(s *scene) {
			h := s.source(work.SourceOptions{Tracer: fixed{Parent: bad, State: "a=1"}})
			a := s.agent(work.AgentOptions{})
			h.complete()
			h.create("cluster1", newWork("web", "1"))
			s.settle()
			if got := a.TraceContext("web"); got.Parent != "" || got.State != "" || valueOf(s.t, a.get("web")) != "1" {
				s.t.Errorf("%.100q arrives as %+v", bad, got)
			}
		})
	}
}

// fixed is a tracer with only one trace context.
type fixed work.TraceContext

func (f fixed) Start(context.Context, work.TraceStep) (work.TraceContext, func(error)) {
	return work.TraceContext(f), nil
}

// TestTraceContinuesAfterRestart: source and agent restart before each event, and the spans are still
// one tree.
func TestTraceContinuesAfterRestart(t *testing.T) {
	inScene(t, func(s *scene) {
		tracer := &spans{uids: true}
		hubStore, agentStore := work.NewMemoryStore(), work.NewMemoryStore()
		start := func() (*hub, *spoke) {
			return s.source(work.SourceOptions{Store: hubStore, Tracer: tracer}),
				s.agent(work.AgentOptions{ClusterName: "cluster1", Store: agentStore, Tracer: tracer})
		}
		h, a := start()
		h.complete()
		s.settle()
		restart := func() {
			h.kill()
			a.kill()
			h, a = start()
			s.settle()
		}
		s.bus.Disconnect()
		s.settle()
		h.create("cluster1", newWork("web", "1"))
		restart()
		s.bus.Reconnect()
		s.settle()
		restart()
		s.bus.Disconnect()
		s.settle()
		if _, err := a.works().Patch(s.t.Context(), "web", types.MergePatchType, appliedAt(1, "True", "R"),
			metav1.PatchOptions{}, "status"); err != nil {
			s.t.Fatal(err)
		}
		restart()
		s.bus.Reconnect()
		s.settle()
		restart()
		want := []string{
			"create work",
			"create work > publish spec",
			"create work > publish spec > receive spec",
			"create work > publish spec > receive spec > apply work",
			"create work > publish spec > receive spec > apply work > publish status",
			"create work > publish spec > receive spec > apply work > publish status > receive status",
		}
		if diff := cmp.Diff(want, tracer.take(s.t)); diff != "" {
			s.t.Errorf("-want +got\n%s", diff)
		}
	})
}
