// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestLoadErrors checks that errors are returned at load where possible.
func TestLoadErrors(t *testing.T) {
	const head = "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\n"
	const named = head + "metadata: {name: things}\n"
	const target = "spec:\n  target: {apiVersion: example.io/v1, kind: Thing}\n"
	script := func(text string) string { return string(document("things", "healthInterpretation", text).Text) }
	for name, test := range map[string]struct{ document, want string }{
		"syntax": {
			script("function InterpretHealth(object)\n  return object.\nend"),
			`things.yaml: ResourceInterpreterCustomization things: spec.customizations.healthInterpretation.luaScript:3:3: InterpretHealth: syntax error near "end"`,
		},
		"unfinished": {
			script("function InterpretHealth(object)\n  return true"),
			`things.yaml: ResourceInterpreterCustomization things: spec.customizations.healthInterpretation.luaScript: InterpretHealth: syntax error at the end of the script`,
		},
		"compiler": {
			script("function InterpretHealth(object)\n  break\nend"),
			`things.yaml: ResourceInterpreterCustomization things: spec.customizations.healthInterpretation.luaScript:2: InterpretHealth: no loop to break`,
		},
		"function missing": {
			script("function InterpretHeath(object) return true end"),
			"the script does not define the function InterpretHealth",
		},
		"local function": {
			script("local function InterpretHealth(object) return true end"),
			"the script does not define the function InterpretHealth",
		},
		"no function": {script("InterpretHealth = true"), "the script does not define the function InterpretHealth"},
		"chunk fails": {
			script("local kube = require('kub')\nfunction InterpretHealth() return true end"),
			"luaScript:1: InterpretHealth: module kub not found: available are kube, table, string, math and os",
		},
		"chunk without end": {script("while true do end"), "the script needs more than 2000000 steps"},
		"symbol": {
			script("function InterpretHealth(object)\n  return object..status\n  .. .a\nend"),
			`luaScript:3:6: InterpretHealth: syntax error near "."`,
		},
		"too long": {script("--" + strings.Repeat("x", 64<<10)), "the limit is 65536"},
		"unknown operation": {
			named + target + "  customizations: {pruning: {luaScript: \"\"}}",
			`things.yaml: ResourceInterpreterCustomization things: spec.customizations.pruning: unknown field: write retention, replicaResource,`,
		},
		"unknown field": {named + target + "  priority: 1", `things: spec.priority: unknown field`},
		"field of a rule": {named + target + "  customizations: {retention: {script: \"\"}}",
			`spec.customizations.retention.script: unknown field: write luaScript`},
		"script missing": {named + target + "  customizations: {retention: {}}",
			"spec.customizations.retention.luaScript: the script is missing"},
		"script of numbers": {named + target + "  customizations: {retention: {luaScript: 1}}",
			"spec.customizations.retention.luaScript: got a JSON number, expected a text"},
		"repeated key": {named + target + "  target: {apiVersion: v1, kind: Pod}\n",
			`things.yaml:6: invalid YAML: key "target" already set`},
		"no name":    {head + "metadata: {}\n" + target, "metadata.name: the name is missing"},
		"no kind":    {named + "spec: {target: {apiVersion: v1}}", "spec.target.kind: the kind is missing"},
		"no version": {named + "spec: {target: {kind: Thing}}", "spec.target.apiVersion: the version is missing"},
		"bad version": {named + "spec: {target: {apiVersion: a/b/c, kind: Thing}}",
			"spec.target.apiVersion: unexpected GroupVersion string"},
		"target of CEL": {named + "spec: {targets: [{}]}",
			"spec.targets: unknown field: write spec.target, an object with apiVersion and kind"},
		"target of texts": {named + "spec: {target: v1}", "spec.target: got a JSON string, expected an object"},
		"another kind": {"apiVersion: v1\nkind: Secret\n",
			`things.yaml: kind: "Secret": write ResourceInterpreterCustomization`},
		"CEL": {
			strings.Replace(named, "ResourceInterp", "Interp", 1) + "spec: {targets: []}",
			"kind: InterpreterCustomization has expressions in CEL: load it with package interpreter/customization",
		},
		"no script": {named + target, "spec.customizations: no script: write luaScript in retention, "},
		"empty script": {named + target + "  customizations: {retention: {luaScript: ''}, healthInterpretation: null}",
			"spec.customizations: no script"},
		"no YAML": {"\n\n---\n\na: b: c\n", "things.yaml:5: invalid YAML: mapping values are not allowed"},
		"another version": {strings.Replace(named, "v1alpha1", "v1beta1", 1),
			`apiVersion: "config.karmada.io/v1beta1": write config.karmada.io/v1alpha1`},
		"no object": {"- a", "things.yaml:1: "},
		"same name": {
			script("function InterpretHealth() return true end") + "\n---\n" +
				script("function InterpretHealth() return true end"),
			`ResourceInterpreterCustomization things: metadata.name: another customization has the same name`,
		},
		"item": {"apiVersion: v1\nkind: List\nitems: [{}]", "items[0].apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lua.New(lua.Options{Timeout: time.Minute}, lua.File{Name: "things.yaml", Text: []byte(test.document)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestRunErrors checks that an answer of a wrong type is an error, with the line if it is known.
func TestRunErrors(t *testing.T) {
	const path = "things.yaml: ResourceInterpreterCustomization things: spec.customizations."
	for name, test := range map[string]struct{ field, script, want string }{
		"index": {
			"healthInterpretation", "function InterpretHealth(object)\n\n  return object.status.ready\nend",
			path + "healthInterpretation.luaScript:3: InterpretHealth of Thing prod/a: attempt to index a non-table " +
				"object(nil) with key 'ready'",
		},
		"error": {
			"healthInterpretation", "function InterpretHealth(object)\n  error('no status')\nend",
			path + "healthInterpretation.luaScript:2: InterpretHealth of Thing prod/a: no status",
		},
		"error that is a table": {"healthInterpretation", "function InterpretHealth() error({}) end", "error of type table"},
		"error in a function": {
			"healthInterpretation",
			"local function check(n)\n  return n + nil\nend\nfunction InterpretHealth(object)\n  return check(1) == 1\nend",
			"luaScript:2: InterpretHealth of Thing prod/a: cannot perform add operation between number and nil",
		},
		"health nil": {"healthInterpretation", "function InterpretHealth() end",
			path + "healthInterpretation.luaScript: InterpretHealth of Thing prod/a: got nil, expected a boolean: each path " +
				"of the script must return one"},
		"health number": {"healthInterpretation", "function InterpretHealth() return 1 end",
			"got a number, expected a boolean"},
		"health text": {"healthInterpretation", "function InterpretHealth() return 'true' end",
			"got a string, expected a boolean"},
		"replicas nil": {"replicaResource", "function GetReplicas() end",
			"first result: got nil, expected a number: each path of the script must return one"},
		"replicas text": {"replicaResource", "function GetReplicas() return '3' end",
			"first result: got a string, expected a number"},
		"replicas fraction": {"replicaResource", "function GetReplicas() return 2.5 end",
			"first result: got 2.5, expected an integer from 0 to 2147483647"},
		"replicas negative": {"replicaResource", "function GetReplicas() return -1 end", "got -1, expected an integer"},
		"replicas large":    {"replicaResource", "function GetReplicas() return 2147483648 end", "expected an integer"},
		"replicas NaN":      {"replicaResource", "function GetReplicas() return 0/0 end", "got NaN, expected an integer"},
		"requirements text": {"replicaResource", "function GetReplicas() return 1, 'x' end",
			"second result: got a string, expected a table"},
		"requirements type": {"replicaResource", "function GetReplicas() return 1, {nodeClaim = 3} end", "second result: "},
		"requirements amount": {"replicaResource", "function GetReplicas() return 1, {resourceRequest = {cpu = 'much'}} end",
			"second result: "},
		"requirements list": {"replicaResource", "function GetReplicas() return 1, {1, 2} end", "second result: "},
		"huge quantity": {"replicaResource",
			"function GetReplicas() return 1, {resourceRequest = {cpu = '1e999999999'}} end", "exponent"},
		"components text": {"componentResource", "function GetComponents() return 'x' end",
			"got a string, expected a table"},
		"components twice": {"componentResource",
			"function GetComponents() return {{name = 'a', replicas = 1}, {name = 'a', replicas = 1}} end",
			"response.components[1].name"},
		"components fraction": {"componentResource", "function GetComponents() return {{name = 'a', replicas = 1.5}} end",
			"cannot unmarshal"},
		"dependencies nil": {"dependencyInterpretation", "function GetDependencies() end",
			"got nil, expected a table: each path of the script must return one"},
		"dependency": {"dependencyInterpretation",
			"function GetDependencies() return {{kind = 'Secret', name = 'a'}} end",
			"response.dependencies[0].apiVersion is missing"},
		"status nil": {"statusReflection", "function ReflectStatus(object) return object.status end",
			"got nil, expected a table: each path of the script must return one"},
		"status cycle": {"statusReflection", "function ReflectStatus() local t = {} t.t = t return t end",
			"result.t: a table contains itself"},
		"status mixed": {"statusReflection", "function ReflectStatus() return {a = {1, b = 2}} end",
			"result.a: a table has both elements and members"},
		"status gaps": {"statusReflection", "function ReflectStatus() return {a = {[2] = 1}} end",
			"result.a: a list has gaps"},
		"status function": {"statusReflection", "function ReflectStatus() return {a = {{b = print}}} end",
			"result.a[1].b: a function is not a JSON value"},
		"status key": {"statusReflection", "function ReflectStatus() return {[true] = 1} end",
			"a table has a key of type boolean"},
		"status infinite": {"statusReflection", "function ReflectStatus() return {a = 1/0} end",
			"result.a: +Inf is not a JSON value"},
		"another object": {"replicaRevision",
			"function ReviseReplica(object) object.metadata.name = 'b' return object end",
			path + "replicaRevision.luaScript: ReviseReplica of Thing prod/a: the script changes metadata.name"},
		"another type": {"replicaRevision", "function ReviseReplica() return {1} end",
			path + "replicaRevision.luaScript: ReviseReplica of Thing prod/a: "},
		"null in a list": {"replicaRevision", "function ReviseReplica(object) return object end",
			"a list with null cannot be passed to a script"},
		"forbidden": {"healthInterpretation", "function InterpretHealth() return loadstring('return true')() end",
			"luaScript:1: InterpretHealth of Thing prod/a: function loadstring is not available"},
		"function of os": {"healthInterpretation", "function InterpretHealth() return os.getenv('HOME') ~= nil end",
			"function os.getenv is not available to customizations"},
		"module": {"healthInterpretation", "function InterpretHealth() return io.open('/etc/passwd') ~= nil end",
			"luaScript:1: InterpretHealth of Thing prod/a: attempt to index a non-table object(nil) with key 'open'"},
		"quantity": {"healthInterpretation",
			"function InterpretHealth() return require('kube').getResourceQuantity('x') > 1 end", `"x" is not a quantity`},
		"pod template": {"healthInterpretation",
			"function InterpretHealth() return require('kube').accuratePodRequirements({spec = 1}) ~= nil end",
			"not a pod template"},
	} {
		t.Run(name, func(t *testing.T) {
			i := load(t, test.field, test.script)
			object := thing(t, "")
			if name == "null in a list" {
				object = thing(t, `"spec":{"list":[1,null]}`)
			}
			for _, operation := range v1alpha1.InterpreterOperations() {
				if !i.Supports(things, operation) {
					continue
				}
				answer, err := i.Interpret(
					t.Context(),
					interpreter.Query{Operation: operation, Object: object, Observed: object},
				)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				var e *lua.Error
				if !errors.As(err, &e) || e.File != "things.yaml" || e.Name != "things" || e.Operation != operation ||
					e.Object != "Thing prod/a" {
					t.Errorf("got %#v", err)
				}
				if answer.Object != nil || answer.Healthy || answer.Status != nil {
					t.Errorf("an error with the answer %+v", answer)
				}
			}
		})
	}
}

// TestLinesOfCaughtErrors checks the lines in errors that a script catches.
func TestLinesOfCaughtErrors(t *testing.T) {
	got, err := evaluate(t, `
  local ok, message = pcall(function()
    error("first")
  end)
  local ok2, message2 = xpcall(function() return nil + 1 end, function(m) return "<" .. m .. ">" end)
  local ok3, message3 = pcall(error, message)
  local ok4, value = pcall(error, {a = 1})
  return {ok = ok, message = message, message2 = message2, message3 = message3, value = value, ok2 = ok2}`, thing(t, ""))
	const want = `{"message":"<string>:4: first","message2":"<<string>:6: cannot perform add operation between nil and number>",` +
		`"message3":"<string>:7: <string>:4: first","ok":false,"ok2":false,"value":{"a":1}}`
	got = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(got)
	if err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	i := load(t, "healthInterpretation", "function InterpretHealth() while true do end end")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Health(ctx, thing(t, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
