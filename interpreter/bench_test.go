// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
)

// recorder is a response writer with few allocations. It keeps only the last write.
type recorder struct {
	header http.Header
	code   int
	body   []byte
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}
func (r *recorder) WriteHeader(code int) { r.code = code }
func (r *recorder) Write(p []byte) (int, error) {
	r.body = append(r.body[:0], p...)
	return len(p), nil
}

func newRequest(t testing.TB, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://webhook/w?timeout=10s",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

var deployments = interpreter.HandlerFor[*appsv1.Deployment]{
	Health: func(_ context.Context, d *appsv1.Deployment) (bool, error) {
		return d.Status.ReadyReplicas == *d.Spec.Replicas, nil
	},
	Revise: func(_ context.Context, d *appsv1.Deployment, replicas int32) error {
		d.Spec.Replicas = &replicas
		return nil
	},
}

// body returns a request about a Deployment of 18 KB.
func body(t testing.TB, operation string) []byte {
	t.Helper()
	object, err := os.ReadFile("testdata/deployment-18k.json")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(object); n < 18_000 {
		t.Fatalf("the Deployment has %d bytes", n)
	}
	return []byte(`{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"75765249-c556-41ec-83e1-c16189ef87ed",` +
		`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"name":"web","namespace":"prod","operation":"` +
		operation + `","replicas":7,"object":` + string(object) + `}}`)
}

// serving returns a function that serves one request, and the recorder of its answer.
func serving(t testing.TB, h interpreter.Handler, operation string) (serve func(), answer *recorder) {
	t.Helper()
	handler := interpreter.NewHandler(h, interpreter.HandlerOptions{})
	content := body(t, operation)
	reader := bytes.NewReader(content)
	request := newRequest(t, "")
	request.Body, request.ContentLength = io.NopCloser(reader), int64(len(content))
	answer = &recorder{}
	return func() {
		reader.Reset(content)
		answer.header = http.Header{}
		handler.ServeHTTP(answer, request)
		if answer.code != http.StatusOK || !bytes.Contains(answer.body, []byte(`"successful":true`)) {
			t.Fatalf("HTTP %d %s", answer.code, answer.body)
		}
	}, answer
}

// TestAllocations checks the limits on allocations that the contract of this package states.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		operation string
		limit     float64
	}{{"InterpretHealth", 320}, {"ReviseReplica", 1100}} {
		serve, _ := serving(t, deployments, test.operation)
		n := testing.AllocsPerRun(50, serve)
		t.Logf("%s: %v allocations", test.operation, n)
		if n > test.limit {
			t.Errorf("%s of a Deployment of 18 KB: %v allocations, the limit is %v", test.operation, n, test.limit)
		}
	}
}

// TestMemoryGrowsWithArrivedBytes checks that memory is allocated for the bytes that arrive, not for the
// Content-Length of a request.
func TestMemoryGrowsWithArrivedBytes(t *testing.T) {
	handler := interpreter.NewHandler(deployments, interpreter.HandlerOptions{})
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			request := newRequest(b, "{")
			request.ContentLength = interpreter.MaxBytes
			answer := &recorder{}
			if handler.ServeHTTP(answer, request); answer.code != http.StatusBadRequest {
				b.Fatalf("HTTP %d %s", answer.code, answer.body)
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n > 300<<10 {
		t.Errorf("a body of one byte that says that it has 8 MiB takes %d bytes", n)
	}
}

func BenchmarkServeHealth(b *testing.B) { benchmark(b, deployments, "InterpretHealth") }
func BenchmarkServeRevise(b *testing.B) { benchmark(b, deployments, "ReviseReplica") }

// BenchmarkServeReviseUnstructured measures the same request with an unstructured object instead of
// a Go type.
func BenchmarkServeReviseUnstructured(b *testing.B) {
	benchmark(b, interpreter.HandlerFor[*unstructured.Unstructured]{
		Revise: func(_ context.Context, u *unstructured.Unstructured, replicas int32) error {
			return unstructured.SetNestedField(u.Object, int64(replicas), "spec", "replicas")
		},
	}, "ReviseReplica")
}

func benchmark(b *testing.B, h interpreter.Handler, operation string) {
	serve, answer := serving(b, h, operation)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
	b.StopTimer()
	var out struct{ Response struct{ Patch []byte } }
	if err := json.Unmarshal(answer.body, &out); err != nil {
		b.Fatal(err)
	}
	if operation == "ReviseReplica" &&
		string(out.Response.Patch) != `[{"op":"replace","path":"/spec/replicas","value":7}]` {
		b.Errorf("the patch is %s", out.Response.Patch)
	}
}
