// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	karmada "github.com/karmada-io/karmada/pkg/util/interpreter"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/lua"
)

// luaDifference is a row of interpreter/lua/KARMADA.md, with a script that shows the difference.
type luaDifference struct {
	difference
	operation, script string
	object            string // additional members
	there, here       string // the answers, or parts of them; "error", or "varies"
}

// luaFunctions maps each operation to the names of its field and its function.
var luaFunctions = map[string][2]string{
	"ReviseReplica":       {"replicaRevision", "ReviseReplica"},
	"AggregateStatus":     {"statusAggregation", "AggregateStatus"},
	"InterpretStatus":     {"statusReflection", "ReflectStatus"},
	"InterpretReplica":    {"replicaResource", "GetReplicas"},
	"InterpretComponent":  {"componentResource", "GetComponents"},
	"InterpretDependency": {"dependencyInterpretation", "GetDependencies"},
}

var luaDifferences = []luaDifference{
	{
		difference{"order of members", "random", "by name", "here: equal questions have equal answers"},
		"InterpretStatus", `local s = "" for k in pairs(object.spec) do s = s .. k end return {s = s}`,
		`"spec":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}`, "varies", `"s":"abcdefgh"`,
	}, {
		difference{
			"global variables",
			"may be those of an earlier call",
			"new in each call",
			"here: a call does not depend on others",
		},
		"InterpretStatus", `n = (n or 0) + 1 return {n = n}`, ``, "varies", `"n":1`,
	}, {
		difference{
			"math.random",
			"random",
			"the same numbers in each call",
			"here: equal questions have equal answers",
		},
		"InterpretStatus", `return {n = math.random(1000000)}`, ``, "varies", `"n":`,
	}, {
		difference{"replicas with a fraction", "cut off", "an error", "here: the answer would be wrong"},
		"InterpretReplica", `return 2.5`, ``, `"replica":2`, "error",
	}, {
		difference{
			"large integers",
			"rounded to a float64",
			"exact if the script passes them on",
			"here: a rounded value would be written back",
		},
		"ReviseReplica", `return object`, `"spec":{"id":9007199254740993}`, `"id":9007199254740992`, `"id":9007199254740993`,
	}, {
		difference{"null", "removed from the object", "unchanged", "here: a patch has only what the script changes"},
		"ReviseReplica", `return object`, `"spec":{"id":null}`, `"kind":"Thing","metadata":{"name":"a"}}`, `"id":null`,
	}, {
		difference{
			"empty values in AggregateStatus",
			"removed from the object",
			"removed from its status only",
			"here: spec would change",
		},
		"AggregateStatus", `return object`, `"spec":{"emptyDir":{}}`, `"spec":{}`, `"emptyDir":{}`,
	}, {
		difference{"lists that a script has emptied", "removed", "empty lists", "here: the script decides"},
		"ReviseReplica", `table.remove(object.spec.a) return object`, `"spec":{"a":[1],"b":1}`, `"spec":{"b":1}`, `"a":[]`,
	}, {
		difference{"a table twice in a result", "an error", "accepted", "here: only a table inside itself has no JSON"},
		"InterpretStatus", `local t = {x = 1} return {a = t, b = t}`, ``, "error", `"a":{"x":1},"b":{"x":1}`,
	}, {
		difference{"lists with null", "the element is left out", "an error", "here: the elements after it would move"},
		"ReviseReplica", `return object`, `"spec":{"a":[null,1]}`, `"a":[1]`, "error",
	}, {
		difference{
			"another object",
			"a renamed object is accepted",
			"an error",
			"here: an interpreter must not rename an object",
		},
		"ReviseReplica", `object.metadata.name = "b" return object`, ``, `"name":"b"`, "error",
	}, {
		difference{"components with the same name", "accepted", "an error", "here: the name identifies a component"},
		"InterpretComponent", `return {{name = "a", replicas = 1}, {name = "a", replicas = 2}}`, ``, `"replicas":2`, "error",
	}, {
		difference{"negative replicas", "accepted", "an error", "here: the answer would be wrong"},
		"InterpretReplica", `return -1`, ``, `"replica":-1`, "error",
	}, {
		difference{
			"name and selector of a dependency",
			"the selector is ignored",
			"an error",
			"here: the script contradicts itself",
		},
		"InterpretDependency",
		`return {{apiVersion = "v1", kind = "Secret", namespace = "a", name = "a", labelSelector = {matchLabels = {a = "b"}}}}`, ``,
		`"name":"a"`, "error",
	}, {
		difference{
			"requirements of pods",
			"as Karmada's interpreter of built-in kinds",
			"as package native, with the priority class",
			"here: as the scheduler counts",
		},
		"InterpretReplica", `return 1, require("kube").accuratePodRequirements({spec = {priorityClassName = "high"}})`, ``,
		`"requires":null`, `"priorityClassName":"high"`,
	}, {
		difference{
			"dependencies of pods",
			"as Karmada's interpreter of built-in kinds",
			"as package native",
			"here: the API server accepts the deprecated field serviceAccount too",
		},
		"InterpretDependency", `return require("kube").getPodDependencies({spec = {serviceAccount = "a"}}, "b")`, ``,
		"error", `"name":"a"`,
	}, {
		difference{
			"string.format",
			"values that do not fit are described in the text",
			"an error",
			"here: the text would be wrong",
		},
		"InterpretStatus", `return {s = string.format("%f", "x")}`, ``, `"s":"%!f(string=x)"`, "error",
	}, {
		difference{"string.match without a match", "returns nothing", "returns nil", "here: as in Lua"},
		"InterpretStatus", `return {s = tostring(string.match("a", "b"))}`, ``, "error", `"s":"nil"`,
	}, {
		difference{
			"malformed patterns",
			"no match, or an error if the match gets that far",
			"an error",
			"here: as in Lua",
		},
		"InterpretStatus", `return {s = string.find("a", "b%") == nil}`, ``, `"s":true`, "error",
	}, {
		difference{"short names of days", "always mon", "Mon to Sun", "here: as in Lua"},
		"InterpretStatus", `return {s = os.date("!%a", 86400)}`, ``, `"s":"mon"`, `"s":"Fri"`,
	}, {
		difference{"package", "a table", "nil", "here: a script must not change how modules are found"},
		"InterpretStatus", `return {s = type(package)}`, ``, `"s":"table"`, `"s":"nil"`,
	},
}

// TestKarmadaLuaDifferences checks each difference of the page, with the answers of both
// interpreters.
func TestKarmadaLuaDifferences(t *testing.T) {
	klog.LogToStderr(false) // Karmada logs each error
	klog.SetOutput(io.Discard)
	t.Cleanup(func() { klog.LogToStderr(true) })
	for _, d := range luaDifferences {
		t.Run(d.name, func(t *testing.T) {
			const attempts = 20
			there, here := map[string]bool{}, map[string]bool{}
			ask := d.askers(t)
			for range attempts {
				a, b := ask()
				there[a], here[b] = true, true
			}
			if len(here) != 1 {
				t.Errorf("here: different answers: %v", here)
			}
			for answer := range here {
				if !strings.Contains(answer, d.here) {
					t.Errorf("here: got %s, want %s", answer, d.here)
				}
			}
			if d.there == "varies" {
				if len(there) == 1 {
					t.Errorf("Karmada: always %v", there)
				}
				return
			}
			for answer := range there {
				if !strings.Contains(answer, d.there) {
					t.Errorf("Karmada: got %s, want %s", answer, d.there)
				}
			}
		})
	}
}

// askers returns a function that asks both interpreters. It returns each answer as JSON, or
// "error".
func (d luaDifference) askers(t *testing.T) func() (there, here string) {
	t.Helper()
	names := luaFunctions[d.operation]
	config := &configv1alpha1.ResourceInterpreterCustomization{}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
		"metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"target": map[string]any{"apiVersion": "example.io/v1", "kind": "Thing"},
			"customizations": map[string]any{
				names[0]: map[string]any{
					"luaScript": "function " + names[1] + "(object, argument) " + d.script + " end",
				},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, config); err != nil {
		t.Fatal(err)
	}
	theirs := declarative.NewConfigurableInterpreter(nil)
	theirs.LoadConfig([]*configv1alpha1.ResourceInterpreterCustomization{config})
	ours, err := lua.New(lua.Options{}, lua.File{Text: raw})
	if err != nil {
		t.Fatal(err)
	}
	more := ""
	if d.object != "" {
		more = "," + d.object
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a"}` + more +
		`}`)); err != nil {
		t.Fatal(err)
	}
	rule := karmada.Rules(karmada.AllResourceInterpreterCustomizationRules).GetByOperation(d.operation)
	return func() (there, here string) {
		there, here = "error", "error"
		if result := rule.Run(theirs, karmada.RuleArgs{Desired: object.DeepCopy(), Replica: 1}); result.Err == nil {
			values := map[string]any{}
			for _, value := range result.Results {
				values[value.Name] = value.Value
			}
			there = text(values)
		}
		answer, err := askKarmadaCase(
			t,
			ours,
			interpreter.Operation(d.operation),
			&luaCase{DesiredObj: object, InputReplicas: 1},
		)
		if err == nil {
			here = text(answer)
		}
		return there, here
	}
}

// TestKarmadaLuaPage compares the page for users with luaDifferences.
func TestKarmadaLuaPage(t *testing.T) {
	content, err := os.ReadFile("../../interpreter/lua/KARMADA.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	for _, d := range luaDifferences {
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", d.name, d.karmada, d.difference.here, d.right))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows of KARMADA.md must be\n%s", strings.Join(want, "\n"))
	}
}
