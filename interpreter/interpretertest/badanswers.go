// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// BadAnswer is an answer that a caller must reject.
type BadAnswer struct {
	Name string
	// Operation is the operation of the request.
	Operation interpreter.Operation
	// Protocols are the protocols in which the answer is possible.
	Protocols []interpreter.Protocol
	// response is the content of the member response, or the whole body if it begins with !. %s is
	// replaced by the UID.
	response string
}

// BadAnswers returns answers that every caller must reject.
func BadAnswers() []BadAnswer {
	both := []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret}
	one := both[1:]
	const renamed = "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9tZXRhZGF0YS9uYW1lIiwidmFsdWUiOiJvdGhlciJ9XQ==" // [{"op":"replace","path":"/metadata/name","value":"other"}]
	const empty = "W10="                                                                               // []
	return []BadAnswer{
		{"no response", v1alpha1.InterpreterOperationInterpretHealth, both, "null"},
		{"wrong UID", v1alpha1.InterpreterOperationInterpretHealth, both, `{"uid":"not-%s","successful":true,"healthy":true}`},
		{"missing replicas", v1alpha1.InterpreterOperationInterpretReplica, both, `{"uid":"%s","successful":true}`},
		{"missing health", v1alpha1.InterpreterOperationInterpretHealth, both, `{"uid":"%s","successful":true}`},
		{"missing status", v1alpha1.InterpreterOperationInterpretStatus, both, `{"uid":"%s","successful":true}`},
		{"missing name of a dependency", v1alpha1.InterpreterOperationInterpretDependency, both, `{"uid":"%s","successful":true,"dependencies":[{"apiVersion":"v1","kind":"Secret"}]}`},
		{"negative replicas", v1alpha1.InterpreterOperationInterpretReplica, both, `{"uid":"%s","successful":true,"replicas":-1}`},
		{"duplicate component", v1alpha1.InterpreterOperationInterpretComponent, one, `{"uid":"%s","successful":true,"components":[{"name":"a","replicas":1},{"name":"a","replicas":2}]}`},
		{"patch without type", v1alpha1.InterpreterOperationReviseReplica, both, `{"uid":"%s","successful":true,"patch":"` + empty + `"}`},
		{"patch of another type", v1alpha1.InterpreterOperationReviseReplica, both, `{"uid":"%s","successful":true,"patch":"` + empty + `","patchType":"MergePatch"}`},
		{"patch that changes identity", v1alpha1.InterpreterOperationReviseReplica, both, `{"uid":"%s","successful":true,"patch":"` + renamed + `","patchType":"JSONPatch"}`},
		{"oversized answer", v1alpha1.InterpreterOperationInterpretHealth, both, "!" + strings.Repeat(" ", interpreter.MaxBytes+1)},
		{"unsuccessful without a status", v1alpha1.InterpreterOperationInterpretHealth, one, `{"uid":"%s","successful":false}`},
		{"unsuccessful", v1alpha1.InterpreterOperationInterpretHealth, one, `{"uid":"%s","successful":false,"status":{"code":418,"message":"a teapot"}}`},
		{"not JSON", v1alpha1.InterpreterOperationInterpretHealth, both, "!<html>"},
		{"another kind", v1alpha1.InterpreterOperationInterpretHealth, both, `!{"kind":"AdmissionReview","apiVersion":"config.karmada.io/v1alpha1","response":{"uid":"%s"}}`},
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
		http.Error(w, "this is no request", http.StatusBadRequest)
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

// serve runs the answer behind TLS.
func (b BadAnswer) serve() *httptest.Server { return httptest.NewTLSServer(b) }
