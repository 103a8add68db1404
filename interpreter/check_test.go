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

// TestJSONTextIsCheckedBeforeItIsSent checks that the JSON text in a handler's response is validated before it is
// sent.
func TestJSONTextIsCheckedBeforeItIsSent(t *testing.T) {
	patch := func(text string) func(*interpreter.Response) {
		return func(r *interpreter.Response) {
			r.Patch, r.PatchType = []byte(text), new(v1alpha1.PatchTypeJSONPatch)
		}
	}
	status := func(s *runtime.RawExtension) func(*interpreter.Response) {
		return func(r *interpreter.Response) { r.RawStatus = s }
	}
	const noPatch = "response.patch is not a JSON Patch: expected a list of operations"
	for _, test := range []struct {
		name, operation string
		answer          func(*interpreter.Response)
		want            string // in the failure, or in the answer
		ok              bool
	}{
		{"patch that is not JSON", "Prune", patch("garbage"), noPatch, false},
		{"patch that is cut off", "Prune", patch(`[{"op":"remove"`), noPatch, false},
		{"merge patch", "Prune", patch(`{"status":null}`), noPatch, false},
		{"status that is not JSON", "InterpretStatus", status(&runtime.RawExtension{Raw: []byte(`{"a":`)}),
			"response.rawStatus is not JSON", false},
		{"empty status", "InterpretStatus", status(&runtime.RawExtension{}),
			"response.rawStatus is missing: the operation requires it", false},
		{"status as an object", "InterpretStatus", status(&runtime.RawExtension{Object: &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "v1", "kind": "Status", "ready": int64(1)}}}),
			`"rawStatus":{"apiVersion":"v1","kind":"Status","ready":1}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			interpreter.NewHandler(answering(test.answer), interpreter.HandlerOptions{}).
				ServeHTTP(answer, newRequest(t, strings.Replace(health(interpreter.ProtocolInterpret, workload), "InterpretHealth",
					test.operation, 1)))
			if !test.ok {
				wantFailure(t, answer.Code, answer.Body.String(), 500, "invalid answer of the handler: "+test.want)
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
	r := newRequest(t, strings.Replace(health(interpreter.ProtocolInterpret, workload), "InterpretHealth",
		"InterpretComponent", 1))
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r.WithContext(klog.NewContext(t.Context(), logger)))
	wantFailure(t, answer.Code, answer.Body.String(), 500,
		`invalid answer of the handler: response.components[1].name is a duplicate: "hunter2"`)
	if !strings.Contains(log.String(), `field="response.components[1].name" problem="InvalidField"`) ||
		strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log does not say what is wrong, or has what is in the answer:\n%s", &log)
	}
}
