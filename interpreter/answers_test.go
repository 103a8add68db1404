// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// answering returns a handler that sends the same response to every request. change edits that
// response.
func answering(change func(*interpreter.Response)) interpreter.Handler {
	return interpreter.HandlerFunc(func(context.Context, interpreter.Request) interpreter.Response {
		r := interpreter.Succeeded("")
		change(&r)
		return r
	})
}

// TestAnswersOfKarmada checks that answers are accepted in the forms that Karmada's server sends
// and Karmada's caller accepts. Other forms are rejected.
func TestAnswersOfKarmada(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}}
	const head = `{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","response":`
	for name, test := range map[string]struct {
		operation    interpreter.Operation
		answer, want string
	}{
		"neither kind nor apiVersion": {v1alpha1.InterpreterOperationInterpretHealth, `{"response":{"uid":"u","successful":true,"healthy":true}}`, "{Healthy:true}"},
		"no apiVersion":               {v1alpha1.InterpreterOperationInterpretHealth, `{"kind":"ResourceInterpreterContext","response":{"uid":"u","successful":true,"healthy":true}}`, "{Healthy:true}"},
		"no kind":                     {v1alpha1.InterpreterOperationInterpretHealth, `{"apiVersion":"config.karmada.io/v1alpha1","response":{"uid":"u","successful":true,"healthy":true}}`, "{Healthy:true}"},
		"a number for a kind":         {v1alpha1.InterpreterOperationInterpretHealth, `{"kind":1,"response":{"uid":"u","successful":true,"healthy":true}}`, "kind is missing"},
		"another kind":                {v1alpha1.InterpreterOperationInterpretHealth, `{"kind":"ExploreReview","response":{"uid":"u","successful":true,"healthy":true}}`, "the request was a ResourceInterpreterContext"},
		"another apiVersion":          {v1alpha1.InterpreterOperationInterpretHealth, `{"apiVersion":"v1","response":{"uid":"u","successful":true,"healthy":true}}`, `apiVersion is "v1"`},
		"a failure without UID":       {v1alpha1.InterpreterOperationInterpretHealth, head + `{"uid":"","successful":false,"status":{"code":400,"message":"cannot read it"}}}`, "cannot read it"},
		"a failure of another":        {v1alpha1.InterpreterOperationInterpretHealth, head + `{"uid":"v","successful":false,"status":{"code":400,"message":"m"}}}`, `response.uid is "v"`},
		"a success without UID":       {v1alpha1.InterpreterOperationInterpretHealth, head + `{"uid":"","successful":true,"healthy":true}}`, `response.uid is ""`},
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

// TestTextInAnswers checks that the JSON text in a handler's response is validated before it is
// sent.
func TestTextInAnswers(t *testing.T) {
	patch := func(text string) func(*interpreter.Response) {
		return func(r *interpreter.Response) {
			r.Patch, r.PatchType = []byte(text), new(v1alpha1.PatchTypeJSONPatch)
		}
	}
	status := func(s *runtime.RawExtension) func(*interpreter.Response) {
		return func(r *interpreter.Response) { r.RawStatus = s }
	}
	const noPatch = "response.patch is no JSON Patch: a list of operations is expected"
	for _, test := range []struct {
		name, operation string
		answer          func(*interpreter.Response)
		want            string // in the failure, or in the answer
		ok              bool
	}{
		{"patch that is not JSON", "Prune", patch("garbage"), noPatch, false},
		{"patch that is cut off", "Prune", patch(`[{"op":"remove"`), noPatch, false},
		{"merge patch", "Prune", patch(`{"status":null}`), noPatch, false},
		{"status that is not JSON", "InterpretStatus", status(&runtime.RawExtension{Raw: []byte(`{"a":`)}), "response.rawStatus is not JSON", false},
		{"empty status", "InterpretStatus", status(&runtime.RawExtension{}), "response.rawStatus is missing: the operation asks for it", false},
		{"status as an object", "InterpretStatus", status(&runtime.RawExtension{Object: &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "v1", "kind": "Status", "ready": int64(1)}}}), `"rawStatus":{"apiVersion":"v1","kind":"Status","ready":1}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			interpreter.NewHandler(answering(test.answer), interpreter.HandlerOptions{}).
				ServeHTTP(answer, newRequest(t, strings.Replace(health(interpreter.ProtocolInterpret, workload), "InterpretHealth", test.operation, 1)))
			if !test.ok {
				wantFailure(t, answer.Code, answer.Body.String(), 500, "the handler's answer cannot be sent: "+test.want)
			} else if !strings.Contains(answer.Body.String(), test.want) {
				t.Errorf("HTTP %d: %s", answer.Code, answer.Body)
			}
		})
	}
}

// TestAnswersAreNotLogged checks that the log names the invalid field of an answer and the problem,
// but not the values of the answer.
func TestAnswersAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(&log)))
	h := interpreter.NewHandler(answering(func(r *interpreter.Response) {
		r.Components = []interpreter.Component{{Name: "hunter2"}, {Name: "hunter2"}}
	}), interpreter.HandlerOptions{})
	r := newRequest(t, strings.Replace(health(interpreter.ProtocolInterpret, workload), "InterpretHealth", "InterpretComponent", 1))
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r.WithContext(klog.NewContext(t.Context(), logger)))
	wantFailure(t, answer.Code, answer.Body.String(), 500, `the handler's answer cannot be sent: response.components[1].name is "hunter2", as that of a component before`)
	if !strings.Contains(log.String(), `field="response.components[1].name" problem="InvalidField"`) || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log does not say what is wrong, or has what is in the answer:\n%s", &log)
	}
}
