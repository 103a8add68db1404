// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

// TestValuesAreUnchanged checks that values which a script passes on are unchanged.
func TestValuesAreUnchanged(t *testing.T) {
	for name, test := range map[string]struct{ fields, chunk, want string }{
		"empty values": {`"spec":{"a":{},"b":[1]}`, "return {a = object.spec.a, b = object.spec.b, c = {}, d = {{}}}",
			`{"b":[1],"d":[]}`},
		"nothing": {"", "return {}", `{}`},
		"large integers": {`"a":9007199254740993,"b":-9223372036854775808`, "return {a = object.a, b = object.b}",
			`{"a":9007199254740993,"b":-9223372036854775808}`},
		"computed": {"", "return {a = 2^53, b = 1/4, c = -0.5, d = 3.0, e = 1e300}",
			`{"a":9007199254740992,"b":0.25,"c":-0.5,"d":3,"e":1e+300}`},
		"text": {`"a":"\u0000\"é"`, "return {a = object.a, n = #object.a}", `{"a":"\u0000\"é","n":4}`},
		"order": {`"spec":{"c":1,"a":2,"b":3}`,
			"local s = '' for k in pairs(object.spec) do s = s .. k end return {s = s}", `{"s":"abc"}`},
		"shared": {"", "local t = {x = 1} return {a = t, b = t, c = {t, t}}",
			`{"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1}]}`},
		"null": {`"spec":{"a":null,"b":1}`, "return object.spec", `{"b":1}`},
		"number as text": {"", "return {a = 1 .. '', b = 1.5 .. '', c = '2' + 1, d = 10 / 2}",
			`{"a":"1","b":"1.5","c":3,"d":5}`},
		"libraries": {"",
			"return {a = math.max(1, 7), b = ('x'):upper(), c = table.concat({1, 2}, ','), d = type(os.time())}",
			`{"a":7,"b":"X","c":"1,2","d":"number"}`},
		"random": {"",
			"local a = math.random(10) math.randomseed(7) local b = math.random() math.randomseed(7) return {b = b == " +
				"math.random(), a = a}", `{"a":10,"b":true}`},
		"globals of a call": {"", "n = (n or 0) + 1 return {n = n}", `{"n":1}`},
		"resources": {"",
			"local k = require('kube') return {a = k.resourceAdd('1', '500m', nil), b = k.getResourceQuantity('2Ki')}",
			`{"a":"1500m","b":2048}`},
		"pod without request": {"",
			"return {a = require('kube').accuratePodRequirements({spec = {containers = {{name = 'a'}}}}) == nil}", `{"a":true}`},
		"namespace": {"", "return require('kube').getPodDependencies({spec = {serviceAccountName = 'a'}}, nil)[1]",
			`{"apiVersion":"v1","kind":"ServiceAccount","name":"a","namespace":"default"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := evaluate(t, test.chunk, thing(t, test.fields)); err != nil || got != test.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, test.want)
			}
		})
	}
}

// TestEmptyValues checks that, outside of a status, an existing empty table stays a list or an
// object. A new empty table gets the type of its path.
func TestEmptyValues(t *testing.T) {
	for name, test := range map[string]struct{ spec, chunk, want string }{
		"passed on":  {`{"a":{},"b":[],"c":{"d":[]},"e":[{},[]]}`, "", `{"a":{},"b":[],"c":{"d":[]},"e":[{},[]]}`},
		"moved":      {`{"a":{},"b":[]}`, "spec.x, spec.y, spec.a, spec.b = spec.a, spec.b, nil, nil", `{"x":{},"y":[]}`},
		"emptied":    {`{"a":[1],"b":{"c":1}}`, "table.remove(spec.a) spec.b.c = nil", `{"a":[],"b":{}}`},
		"new":        {`{"a":{"b":[],"c":{}}}`, "object.spec = {a = {b = {}, c = {}}}", `{"a":{"b":[],"c":{}}}`},
		"in a list":  {`{"a":[{"b":{}}]}`, "spec.a = {{b = {}}, {b = {}}}", `{"a":[{"b":{}},{"b":{}}]}`},
		"elsewhere":  {`{"a":1}`, "spec.b = {} spec.c = {{}, 1}", `{"a":1,"c":[1]}`},
		"both":       {`{"l":[{"a":{}},{"a":[]}]}`, "spec.l[1].a = {}", `{"l":[{"a":{}},{"a":[]}]}`},
		"all of it":  {`{"a":1}`, "spec.a = nil", `{}`},
		"with a dot": {`{"a.b":{},"a":{"b":[]}}`, "spec['a.b'], spec.a.b = {}, {}", `{"a":{"b":[]},"a.b":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for field, ask := range map[string]func(*lua.Interpreter) (*unstructured.Unstructured, error){
				"replicaRevision": func(i *lua.Interpreter) (*unstructured.Unstructured, error) {
					return i.Revise(t.Context(), thing(t, `"spec":`+test.spec), 1)
				},
				"statusAggregation": func(i *lua.Interpreter) (*unstructured.Unstructured, error) {
					return i.AggregateStatus(t.Context(), thing(t, `"spec":`+test.spec), nil)
				},
			} {
				function := map[string]string{"replicaRevision": "ReviseReplica", "statusAggregation": "AggregateStatus"}[field]
				i := load(
					t,
					field,
					"function "+function+"(object)\n  local spec = object.spec "+test.chunk+" return object\nend",
				)
				object, err := ask(i)
				if err != nil {
					t.Fatal(err)
				}
				got, err := json.Marshal(object.Object["spec"])
				if err != nil || string(got) != test.want {
					t.Errorf("%s: %v\ngot  %s\nwant %s", function, err, got, test.want)
				}
			}
		})
	}
}

// TestIndistinguishableIntegersAreAnError checks that two integers are an error if they are the same Lua number,
// because Lua cannot distinguish them.
func TestIndistinguishableIntegersAreAnError(t *testing.T) {
	for _, fields := range []string{
		`"a":9007199254740993,"b":9007199254740992`, `"a":9223372036854775807,"b":9223372036854775806`,
		`"a":-9007199254740993,"b":-9007199254740992`,
	} {
		if got, err := evaluate(t, "return {a = object.a}", thing(t, fields)); err == nil {
			t.Errorf("%s: got %s, want an error", fields, got)
		}
	}
}
