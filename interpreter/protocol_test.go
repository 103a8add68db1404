// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestEveryOperationOfBothProtocols runs every operation of both protocols: in the process, and over TLS between the
// server and the caller of this module.
func TestEveryOperationOfBothProtocols(t *testing.T) {
	w := start(t, interpreter.ServerOptions{}, map[string]interpreter.Handler{"/w": workloads})
	t.Run("handler", func(t *testing.T) {
		interpretertest.RunFile(t, interpreter.FromHandler(workloads), "testdata/workload.yaml")
	})
	t.Run("Interpret", func(t *testing.T) {
		interpretertest.RunFile(t, interpretertest.URL(t, interpreter.ProtocolInterpret, w.url("/w"), []byte(w.ca.PEM)),
			"testdata/workload.yaml")
	})
	cases, err := interpretertest.Load("testdata/workload.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[interpreter.Operation]bool{}
	for i := range cases {
		seen[cases[i].Operation] = true
		if cases[i].Operation == v1alpha1.InterpreterOperationInterpretComponent { // the Explore protocol does not have it
			cases[i].Want = interpretertest.Want{Error: "not interpreted"}
		}
	}
	if len(seen) != len(v1alpha1.InterpreterOperations()) {
		t.Errorf("the cases have the operations %v, which are not all", seen)
	}
	t.Run("Explore", func(t *testing.T) {
		interpretertest.Run(t, interpretertest.URL(t, interpreter.ProtocolExplore, w.url("/w"), []byte(w.ca.PEM)), cases...)
	})
	t.Run("conformance", func(t *testing.T) {
		cases, err := interpretertest.Load("testdata/workload.yaml")
		if err != nil {
			t.Fatal(err)
		}
		interpretertest.CheckServer(t, interpretertest.Server{URL: w.url("/w"), Client: w.client, Cases: cases})
	})
}

// vector is a request that another implementation sends, and an answer to it.
type vector struct {
	Operation, Method, Query string
	Header                   map[string]string
	Request, Answer          json.RawMessage
	AcceptedByCaller         bool
	Result                   string
}

func vectors(t *testing.T, path string) []vector {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	if err := json.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRecordedRequestsAndAnswers checks the requests of Karmada and of a caller of the Explore proposal. They are
// answered, and the answers that those callers accept are accepted with the same results.
func TestRecordedRequestsAndAnswers(t *testing.T) {
	for _, path := range []string{"testdata/karmada-interpreter.json", "testdata/explore.json"} {
		for _, v := range vectors(t, path) {
			t.Run(path+"/"+v.Operation, func(t *testing.T) {
				request := received(t, v.Request)
				takes(t, v, request)
				answers(t, v, request)
				sends(t, v, request)
			})
		}
	}
}

// received returns a request as a handler receives it.
func received(t *testing.T, body []byte) *interpreter.Request {
	t.Helper()
	var request *interpreter.Request
	h := interpreter.HandlerFunc(func(_ context.Context, r interpreter.Request) interpreter.Response {
		request = &r
		return interpreter.Denied("")
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if interpreter.NewHandler(h, interpreter.HandlerOptions{}).ServeHTTP(answer, r); request == nil {
		t.Fatalf("HTTP %d %s", answer.Code, answer.Body)
	}
	return request
}

// takes compares the result of decoding the vector's answer with the vector's result.
func takes(t *testing.T, v vector, request *interpreter.Request) {
	t.Helper()
	response, err := interpreter.DecodeResponse(request, v.Answer)
	if err != nil {
		t.Fatal(err)
	}
	q := query(t, request)
	answer, err := q.Answer(request.Protocol, response)
	if (err == nil) != v.AcceptedByCaller {
		t.Fatalf("taken: %v, want %v", err, v.AcceptedByCaller)
	}
	var result any
	switch request.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		result = struct {
			Replicas     int32                            `json:"replicas"`
			Requirements *interpreter.ReplicaRequirements `json:"requirements"`
		}{answer.Replicas, answer.Requirements}
	case v1alpha1.InterpreterOperationInterpretComponent:
		result = answer.Components
	case v1alpha1.InterpreterOperationInterpretDependency:
		result = answer.Dependencies
	case v1alpha1.InterpreterOperationInterpretStatus:
		result = answer.Status
	case v1alpha1.InterpreterOperationInterpretHealth:
		result = answer.Healthy
	default:
		result = answer.Object
	}
	got, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if !jsonpatch.Equal(got, []byte(v.Result)) {
		t.Errorf("the result is\n%s, want\n%s", got, v.Result)
	}
}

func query(t *testing.T, r *interpreter.Request) *interpreter.Query {
	t.Helper()
	q := &interpreter.Query{Operation: r.Operation, Object: &unstructured.Unstructured{}, Statuses: r.AggregatedStatus}
	if err := q.Object.UnmarshalJSON(r.Object.Raw); err != nil {
		t.Fatal(err)
	}
	if r.ObservedObject != nil {
		q.Observed = &unstructured.Unstructured{}
		if err := q.Observed.UnmarshalJSON(r.ObservedObject.Raw); err != nil {
			t.Fatal(err)
		}
	}
	if r.DesiredReplicas != nil {
		q.Replicas = *r.DesiredReplicas
	}
	return q
}

// answers sends the vector's request, with its headers, to a server. The server must return the
// vector's answer.
func answers(t *testing.T, v vector, request *interpreter.Request) {
	t.Helper()
	w := start(t, interpreter.ServerOptions{},
		map[string]interpreter.Handler{"/foo": interpreter.HandlerFunc(func(_ context.Context, r interpreter.Request) interpreter.Response {
			if diff := cmp.Diff(request, &r); diff != "" {
				t.Errorf("the handler sees another request (-want +got):\n%s", diff)
			}
			response, err := interpreter.DecodeResponse(&r, v.Answer)
			if err != nil {
				t.Error(err)
				return interpreter.Response{}
			}
			return *response
		})})
	r, err := http.NewRequestWithContext(t.Context(), v.Method, w.url("/foo?"+v.Query), bytes.NewReader(v.Request))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range v.Header {
		r.Header.Set(name, value)
	}
	response, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d %s: %v", response.StatusCode, body, err)
	}
	// Karmada's server omits them
	want := map[string]any{"kind": request.Protocol.Kind(), "apiVersion": v1alpha1.GroupVersion.String()}
	if err := json.Unmarshal(v.Answer, &want); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(want); err != nil || !jsonpatch.Equal(body, text) {
		t.Errorf("the answer is\n%s, want\n%s, %v", body, text, err)
	}
}

// sends checks that this module's caller sends the vector's request for the same question. Only
// replicas may differ, because Karmada always sends them.
func sends(t *testing.T, v vector, request *interpreter.Request) {
	t.Helper()
	ours, err := query(t, request).Request(request.Protocol, request.UID)
	if err != nil {
		t.Fatal(err)
	}
	body, err := interpreter.EncodeRequest(ours)
	if err != nil {
		t.Fatal(err)
	}
	got, want := tree(t, body), tree(t, v.Request)
	if request.Operation != v1alpha1.InterpreterOperationReviseReplica {
		delete(want["request"].(map[string]any), "replicas")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("our request differs (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func tree(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExploreHasNoComponents checks that an operation which a protocol does not have is an error
// before a request is sent.
func TestExploreHasNoComponents(t *testing.T) {
	request := &interpreter.Request{Protocol: interpreter.ProtocolExplore}
	request.Operation = v1alpha1.InterpreterOperationInterpretComponent
	const want = "request.operation InterpretComponent does not exist in the Explore protocol"
	if _, err := interpreter.EncodeRequest(request); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAnswersOfKarmada checks that answers are accepted in the forms that Karmada's server sends
// and Karmada's caller accepts. Other forms are rejected.
func TestAnswersOfKarmada(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "c"}}}
	const head = `{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","response":`
	for name, test := range map[string]struct {
		operation    interpreter.Operation
		answer, want string
	}{
		"neither kind nor apiVersion": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"response":{"uid":"u","successful":true,"healthy":true}}`, "{Healthy:true}"},
		"no apiVersion": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"kind":"ResourceInterpreterContext","response":{"uid":"u","successful":true,"healthy":true}}`, "{Healthy:true}"},
		"no kind": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"apiVersion":"config.karmada.io/v1alpha1","response":{"uid":"u","successful":true,"healthy":true}}`,
			"{Healthy:true}"},
		"a number for a kind": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"kind":1,"response":{"uid":"u","successful":true,"healthy":true}}`, "kind is missing"},
		"another kind": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"kind":"ExploreReview","response":{"uid":"u","successful":true,"healthy":true}}`,
			"expected ResourceInterpreterContext as in the request"},
		"another apiVersion": {v1alpha1.InterpreterOperationInterpretHealth,
			`{"apiVersion":"v1","response":{"uid":"u","successful":true,"healthy":true}}`, `apiVersion is "v1"`},
		"a failure without UID": {v1alpha1.InterpreterOperationInterpretHealth,
			head + `{"uid":"","successful":false,"status":{"code":400,"message":"cannot read it"}}}`, "cannot read it"},
		"a failure of another": {v1alpha1.InterpreterOperationInterpretHealth,
			head + `{"uid":"v","successful":false,"status":{"code":400,"message":"m"}}}`, `response.uid is "v"`},
		"a success without UID": {v1alpha1.InterpreterOperationInterpretHealth,
			head + `{"uid":"","successful":true,"healthy":true}}`, `response.uid is ""`},
		"duplicate dependencies": {v1alpha1.InterpreterOperationInterpretDependency, head + `{"uid":"u","successful":true,"dependencies":[
			{"apiVersion":"v1","kind":"Secret","name":"a"},{"apiVersion":"v1","kind":"Secret","name":"a"},{"apiVersion":"v1","kind":"Secret","name":"b"}]}}`, "Secret a, Secret b"},
		"a selector next to a name": {v1alpha1.InterpreterOperationInterpretDependency, head + `{"uid":"u","successful":true,"dependencies":[
			{"apiVersion":"v1","kind":"Secret","name":"a","labelSelector":{"matchLabels":{"x":"y"}}}]}}`, "Secret a"},
	} {
		t.Run(name, func(t *testing.T) {
			q := interpreter.Query{Operation: test.operation, Object: object}
			request, err := q.Request(interpreter.ProtocolInterpret, "u")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			response, err := interpreter.DecodeResponse(request, []byte(test.answer))
			if err == nil {
				var answer interpreter.Answer
				answer, err = q.Answer(interpreter.ProtocolInterpret, response)
				got = "{Healthy:true}"
				if test.operation == v1alpha1.InterpreterOperationInterpretDependency {
					got = dependencyNames(answer.Dependencies)
				} else if !answer.Healthy {
					got = "{Healthy:false}"
				}
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func dependencyNames(dependencies []interpreter.DependentObjectReference) string {
	var out []string
	for _, d := range dependencies {
		text := d.Kind + " " + d.Name
		if d.LabelSelector != nil {
			text += " with a selector"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
