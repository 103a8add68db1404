// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// revise runs a script on an object through the webhook handler, and returns the patch or the
// error.
func revise(t *testing.T, script, object string) (patch string, status *v1alpha1.RequestStatus) {
	t.Helper()
	i := load(t, "replicaRevision", "function ReviseReplica(object, replicas)\n  "+script+"\n  return object\nend")
	request := interpreter.Request{}
	request.Kind.Group, request.Kind.Version, request.Kind.Kind = "example.io", "v1", "Thing"
	request.Operation, request.DesiredReplicas = v1alpha1.InterpreterOperationReviseReplica, new(int32(7))
	request.Object = runtime.RawExtension{Raw: []byte(object)}
	r := i.Handle(t.Context(), request)
	return string(r.Patch), r.Status
}

// TestPatchHasOnlyChanges checks that values which a script does not change are not in the patch,
// also values that Lua cannot represent.
func TestPatchHasOnlyChanges(t *testing.T) {
	const object = `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a","creationTimestamp":null},"spec":{` +
		`"replicas":1,"a":9007199254740993,"b":9007199254740992.0,"c":9007199254740992,"d":18446744073709551615,"e":1.10,"f":1.0,"g":null,` +
		`"h":[{"name":"x","a":9007199254740993,"n":null},{"name":"y","a":9007199254740992,"b":1.0}],"i":{},"j":[],"k":-0.0,"l":1e2}}`
	for name, test := range map[string]struct{ script, want string }{
		"nothing":     {"", "[]"},
		"replicas":    {"object.spec.replicas = replicas", `[{"op":"replace","path":"/spec/replicas","value":7}]`},
		"a number":    {"object.spec.e = 1.2", `[{"op":"replace","path":"/spec/e","value":1.2}]`},
		"an element":  {"object.spec.h[2].b = 2", `[{"op":"replace","path":"/spec/h/1/b","value":2}]`},
		"a new table": {"object.spec.i = {x = 1}", `[{"op":"add","path":"/spec/i/x","value":1}]`},
		"removed": {"object.spec.d, object.spec.e = nil, nil",
			`[{"op":"remove","path":"/spec/d"},{"op":"remove","path":"/spec/e"}]`},
		"a removed list": {"object.spec.h = nil", `[{"op":"remove","path":"/spec/h"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, status := revise(t, test.script, object)
			if status != nil && status.Code != http.StatusOK || got != test.want {
				t.Errorf("%+v\ngot  %s\nwant %s", status, got, test.want)
			}
		})
	}
}

// TestConstantIsNoInteger checks a constant that is the same Lua number as an integer of the
// object. The constant is not replaced with that integer.
func TestConstantIsNoInteger(t *testing.T) {
	const object = `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"a":9007199254740993}}`
	got, status := revise(t, "object.spec.b = 9007199254740992", object)
	if status == nil || !strings.Contains(status.Message, "are 9.007199254740992e+15 in Lua") {
		t.Errorf("%+v: got %s, want an error", status, got)
	}
	const want = `[{"op":"add","path":"/spec/b","value":9007199254740993}]`
	if got, status = revise(t, "object.spec.b = object.spec.a", object); got != want {
		t.Errorf("%+v: got %s, want %s", status, got, want)
	}
}

// TestScriptReceivesOnlyItsKind checks that a script never receives an object of another kind than the kind of its
// request.
func TestScriptReceivesOnlyItsKind(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`
	patch, status := revise(t, "object.spec = {}", object)
	if patch != "" || status == nil || status.Code != http.StatusBadRequest ||
		!strings.Contains(status.Message, "request.object is a v1 Secret, but the request has the kind example.io/v1 Thing") {
		t.Errorf("%s, %+v", patch, status)
	}
}

// TestServedScriptKeepsIdentity checks that a served script cannot answer with another object.
func TestServedScriptKeepsIdentity(t *testing.T) {
	const object = `{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"1"}}`
	for field, script := range map[string]string{
		"apiVersion": "object.apiVersion = 'v1'", "kind": "object.kind = 'Secret'",
		"metadata.name":      "object.metadata.name = 'b'",
		"metadata.namespace": "object.metadata.namespace = 'm'", "metadata.uid": "object.metadata.uid = nil",
	} {
		patch, status := revise(t, script, object)
		if patch != "" || status == nil || status.Code != http.StatusInternalServerError ||
			!strings.HasSuffix(status.Message, "the script changes "+field+": the answer would be another object") {
			t.Errorf("%s: %s, %+v", field, patch, status)
		}
	}
}
