// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestExpensivePatchIsRejected checks that a small patch cannot occupy a caller for minutes, and that ordinary
// patches are applied.
func TestExpensivePatchIsRejected(t *testing.T) {
	for _, test := range []struct {
		name        string
		elements, n int
		operation   string
		ok          bool
	}{
		{"many changes of a large list", 200_000, 5_000, `{"op":"add","path":"/spec/list/0","value":1}`, false},
		{"many moves", 200_000, 5_000, `{"op":"move","from":"/spec/list/0","path":"/spec/list/-"}`, false},
		{"some changes of a large list", 50_000, 100, `{"op":"remove","path":"/spec/list/0"}`, true},
		{"many changes of a small list", 9_000, 9_000, `{"op":"remove","path":"/spec/list/0"}`, true},
		{"replacements in place", 40_000, 9_000, `{"op":"replace","path":"/spec/list/0","value":2}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := make([]any, test.elements)
			for i := range list {
				list[i] = int64(i)
			}
			q := interpreter.Query{Operation: v1alpha1.InterpreterOperationPrune, Object: &unstructured.Unstructured{
				Object: map[string]any{"apiVersion": "v1", "kind": "List", "spec": map[string]any{"list": list}}}}
			r := interpreter.Succeeded("")
			r.Patch, r.PatchType = []byte("["+strings.TrimSuffix(strings.Repeat(test.operation+",", test.n), ",")+"]"),
				new(v1alpha1.PatchTypeJSONPatch)
			_, err := q.Answer(interpreter.ProtocolInterpret, &r)
			var wrong *interpreter.AnswerError
			want := "response.patch is too expensive for an object of this size: replace lists and deep values as a whole"
			if test.ok && err != nil || !test.ok && (!errors.As(err, &wrong) || wrong.Problem != interpreter.ProblemTooLarge ||
				err.Error() != want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestObjectWithPlainInts checks an object that was made in Go with an int. JSON does not distinguish it from
// an int64.
func TestObjectWithPlainInts(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Workload",
		"spec": map[string]any{"replicas": 3}}}
	q := interpreter.Query{Operation: v1alpha1.InterpreterOperationPrune, Object: object}
	r := interpreter.Succeeded("")
	answer, err := q.Answer(interpreter.ProtocolInterpret, &r)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := unstructured.NestedInt64(answer.Object.Object, "spec", "replicas"); n != 3 || err != nil {
		t.Errorf("got %v, %v", answer.Object, err)
	}
}
