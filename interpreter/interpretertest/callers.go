// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// CheckCaller tests a caller with webhooks that send invalid answers. The caller must return an
// error for each, and must not change the object. The function newCaller returns a caller with only
// the given configurations.
func CheckCaller(
	t *testing.T, newCaller func(t *testing.T, configurations caller.Configurations) interpreter.Interpreter,
) {
	t.Helper()
	for _, bad := range BadAnswers() {
		for _, protocol := range bad.Protocols {
			t.Run(string(protocol)+"/"+bad.Name, func(t *testing.T) {
				server := httptest.NewTLSServer(bad)
				defer server.Close()
				ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
				target := newCaller(t, everything(protocol, server.URL, ca, false))
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Workload",
					"metadata": map[string]any{"name": "w", "namespace": "n"}, "spec": map[string]any{"replicas": int64(1)}}}
				before := object.DeepCopy()
				query := interpreter.Query{Operation: bad.Operation, Object: object, Replicas: 2}
				answer, err := target.Interpret(t.Context(), query)
				if err == nil {
					t.Errorf("the answer was accepted: %+v", answer)
				}
				if d := diff("the object was changed", before, object); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// BadAnswer is an answer that a caller must reject.
type BadAnswer struct {
	Name      string
	Operation interpreter.Operation  // of the request
	Protocols []interpreter.Protocol // in which the answer is possible
	// response is the content of the member response, or the whole body if it begins with !. %s is
	// replaced by the UID.
	response string
}

// BadAnswers returns answers that every caller must reject.
func BadAnswers() []BadAnswer {
	both := []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret}
	one := both[1:]
	const (
		replicas     = v1alpha1.InterpreterOperationInterpretReplica
		health       = v1alpha1.InterpreterOperationInterpretHealth
		status       = v1alpha1.InterpreterOperationInterpretStatus
		dependencies = v1alpha1.InterpreterOperationInterpretDependency
		components   = v1alpha1.InterpreterOperationInterpretComponent
		revise       = v1alpha1.InterpreterOperationReviseReplica
	)
	response := func(members string) string { return `{"uid":"%s","successful":true` + members + `}` }
	patch := func(operations, patchType string) string {
		return response(`,"patch":"` + base64.StdEncoding.EncodeToString([]byte(operations)) + `"` + patchType)
	}
	const rename = `[{"op":"replace","path":"/metadata/name","value":"other"}]`
	return []BadAnswer{
		{"no response", health, both, "null"},
		{"wrong UID", health, both, `{"uid":"not-%s","successful":true,"healthy":true}`},
		{"missing replicas", replicas, both, response("")},
		{"missing health", health, both, response("")},
		{"missing status", status, both, response("")},
		{"missing name of a dependency", dependencies, both,
			response(`,"dependencies":[{"apiVersion":"v1","kind":"Secret"}]`)},
		{"negative replicas", replicas, both, response(`,"replicas":-1`)},
		{"duplicate component", components, one,
			response(`,"components":[{"name":"a","replicas":1},{"name":"a","replicas":2}]`)},
		{"patch without type", revise, both, patch("[]", "")},
		{"patch of another type", revise, both, patch("[]", `,"patchType":"MergePatch"`)},
		{"patch that changes identity", revise, both, patch(rename, `,"patchType":"JSONPatch"`)},
		{"oversized answer", health, both, "!" + strings.Repeat(" ", interpreter.MaxBytes+1)},
		{"unsuccessful without a status", health, one, `{"uid":"%s","successful":false}`},
		{"unsuccessful", health, one,
			`{"uid":"%s","successful":false,"status":{"code":418,"message":"a teapot"}}`},
		{"not JSON", health, both, "!<html>"},
		{"another kind", health, both,
			`!{"kind":"AdmissionReview","apiVersion":"config.karmada.io/v1alpha1","response":{"uid":"%s"}}`},
	}
}

// ServeHTTP sends the answer to any request of either protocol.
func (b BadAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var review struct {
		Kind, APIVersion string
		Request          struct{ UID string }
	}
	if err != nil || json.Unmarshal(body, &review) != nil {
		http.Error(w, "not a request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := strings.ReplaceAll(b.response, "%s", review.Request.UID)
	if whole, ok := strings.CutPrefix(answer, "!"); ok {
		_, _ = io.WriteString(w, whole)
		return
	}
	fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"response":%s}`, review.Kind, review.APIVersion, answer)
}
