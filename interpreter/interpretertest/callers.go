// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"encoding/pem"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
)

// CheckCaller tests a caller with webhooks that send invalid answers. The caller must return an
// error for each, and must not change the object. The function returns a caller with only these
// configurations.
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
