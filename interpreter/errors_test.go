// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestErrorsDoNotQuoteObjects checks that errors do not contain the data of objects, because errors are
// logged.
func TestErrorsDoNotQuoteObjects(t *testing.T) {
	answer := httptest.NewRecorder()
	interpreter.NewHandler(interpreter.HandlerFor[*unstructured.Unstructured]{
		Health: func(context.Context, *unstructured.Unstructured) (bool, error) { return true, nil },
	}, interpreter.HandlerOptions{}).ServeHTTP(answer,
		newRequest(t, health(interpreter.ProtocolInterpret, `{"data":"hunter2"}`)))
	wantFailure(t, answer.Code, answer.Body.String(), 400, "request.object has no kind")

	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret",
		"data": map[string]any{"password": "hunter2"}}}
	q := interpreter.Query{Operation: v1alpha1.InterpreterOperationPrune, Object: secret}
	for patch, want := range map[string]string{
		`[{"op":"remove","path":"/kind"}]`:                         `response.patch changes kind from "Secret" to "": the answer would be another object`,
		`[{"op":"replace","path":"/kind","value":null}]`:           `response.patch changes kind from "Secret" to "": the answer would be another object`,
		`[{"op":"test","path":"/data/password","value":"guess"}]`:  "response.patch cannot be applied",
		`[{"op":"add","path":"/data/password/x","value":1}]`:       "response.patch cannot be applied",
		`[{"op":"move","from":"/data","path":"/data/password/x"}]`: "response.patch cannot be applied",
	} {
		r := interpreter.Succeeded("")
		r.Patch, r.PatchType = []byte(patch), new(v1alpha1.PatchTypeJSONPatch)
		_, err := q.Answer(interpreter.ProtocolInterpret, &r)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", patch, err)
		}
	}
}
