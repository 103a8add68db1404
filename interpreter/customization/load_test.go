// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
	"github.com/spokewire/sdk-go/interpreter/customization"
)

// TestInvalidDocumentsAreRejected checks that each mistake in a document is reported at load, with its place.
func TestInvalidDocumentsAreRejected(t *testing.T) {
	const head = "apiVersion: config.karmada.io/v1alpha1\nkind: InterpreterCustomization\n"
	fields := "replicas, requirements, components, revise, retain, aggregate, dependencies, status, health, prune"
	for _, tt := range []struct{ name, text, want string }{
		{"no YAML", "a: [", "f:1: invalid YAML: did not find expected node content"},
		{"a repeated key", "kind: a\nkind: b", `f:2: invalid YAML: key "kind" already set in map`},
		{"no object", "- a", "f:1:1: is a list: write an object with apiVersion, kind, metadata and spec"},
		{"another version", "apiVersion: v1\nkind: InterpreterCustomization",
			`f:1:13: apiVersion: "v1": write config.karmada.io/v1alpha1`},
		{"another kind", "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization",
			`f:2:7: kind: "ResourceInterpreterCustomization" is Karmada's kind with Lua scripts: load it with package interpreter/lua`},
		{"no name", head + "metadata: {}\nspec: {}",
			`f:3:11: metadata.name: "": write a name of lower case letters, digits, - and .`},
		{"an invalid name", head + "metadata: {name: A B}\nspec: {}",
			`f:3:18: metadata.name: "A B": write a name of lower case letters, digits, - and .`},
		{"an unknown field", head + "metadata: {name: c}\nspec: {}\nother: 1",
			"f:5:1: InterpreterCustomization c: other: unknown field"},
		{"an unknown field of metadata", head + "metadata: {name: c, label: {}}",
			"f:3:21: InterpreterCustomization c: metadata.label: unknown field"},
		{"a field of another type", head + "metadata: {name: c, labels: 1}",
			"f:3:29: InterpreterCustomization c: metadata.labels: is a number: write an object"},
		{"spec of another type", head + "metadata: {name: c}\nspec: [1]",
			"f:4:7: InterpreterCustomization c: spec: is a list: write an object"},
		{"no expression", oneWith(""), "f:5:3: InterpreterCustomization c: spec: has no expression: write " + fields},
		{"an unknown operation", oneWith("  helth: true"),
			"f:6:3: InterpreterCustomization c: spec.helth: unknown field: write targets, " + fields},
		{"an operation of Lua", oneWith("  healthInterpretation: {luaScript: x}"),
			"f:6:3: InterpreterCustomization c: spec.healthInterpretation: unknown field: write targets, " + fields},
		{"requirements alone", oneWith("  requirements: '{}'"),
			"f:6:17: InterpreterCustomization c: spec.requirements: needs spec.replicas"},
		{"an object as expression", oneWith("  prune: {}"),
			"f:6:10: InterpreterCustomization c: spec.prune: must be a string with an expression: put it in quotes"},
		{"no value", oneWith("  prune:"),
			"f:6:9: InterpreterCustomization c: spec.prune: must be a string with an expression: put it in quotes"},
		{"no targets", head + "metadata: {name: c}\nspec: {health: true}",
			"f:4:7: InterpreterCustomization c: spec.targets: is required: write a list of objects with apiVersion and kind"},
		{"an unknown field of a target", head +
			"metadata: {name: c}\nspec: {health: true, targets: [{apiVersion: v1, kind: T, name: n}]}",
			"f:4:58: InterpreterCustomization c: spec.targets[0].name: unknown field: write apiVersion: GROUP/VERSION and kind"},
		{"a target", head + "metadata: {name: c}\nspec: {health: true, targets: {apiVersion: v1, kind: T}}",
			"f:4:31: InterpreterCustomization c: spec.targets: is an object: write a list of objects with apiVersion and kind"},
		{"a target without kind", strings.Replace(oneWith("  health: true"), ", kind: T", "", 1),
			"f:5:13: InterpreterCustomization c: spec.targets[0].kind: is required"},
		{"a target without version", strings.Replace(oneWith("  health: true"), "example.com/v1", "''", 1),
			"f:5:26: InterpreterCustomization c: spec.targets[0].apiVersion: is required"},
		{"a group without version", strings.Replace(oneWith("  health: true"), "example.com/v1", "example.com", 1),
			`f:5:26: InterpreterCustomization c: spec.targets[0].apiVersion: "example.com" is not a group and version: ` +
				"write group/version, group/*, *.domain/* or *"},
		{"a pattern inside", strings.Replace(oneWith("  health: true"), "example.com/v1", "a*.com/v1", 1),
			`f:5:26: InterpreterCustomization c: spec.targets[0].apiVersion: "a*.com/v1" is not a group and version: ` +
				"write group/version, group/*, *.domain/* or *"},
		{"an unknown kind", strings.Replace(oneWith("  health: true"), "kind: T}", "kind: T*}", 1),
			`f:5:48: InterpreterCustomization c: spec.targets[0].kind: "T*" is not a kind: write a name or *`},
		{"a duplicate target", oneWith("  health: true") + "\n---\n" +
			strings.Replace(oneWith("  prune: '{}'"), "name: c", "name: d", 1),
			"f:12:13: InterpreterCustomization d: spec.targets[0]: T of example.com/v1 is a target of customization c at f:3 already"},
		{"a duplicate name", oneWith("  health: true") + "\n---\n" + oneWith("  prune: '{}'"),
			`f:10:18: InterpreterCustomization c: metadata.name: "c" is the name of the customization at f:3 already`},
		{"an object of another kind",
			"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web}\nstatus: {a: 1}",
			`f:2:7: kind: "Rollout": write InterpreterCustomization`},
		{"a text", "x", "f:1:1: is a string: write an object with apiVersion, kind, metadata and spec"},
		{"an assignment", oneWith("  health: object.status.phase = 'Running'"),
			`f:6:31: InterpreterCustomization c: spec.health: syntax error at "= ": write == to compare`},
		{"an expression that does not end", oneWith("  health: |\n    true &&\n    (1 == 2\n"),
			"f:8:11: InterpreterCustomization c: spec.health: missing ) at the end of the expression"},
		{"a syntax error", oneWith("  health: object."),
			"f:6:18: InterpreterCustomization c: spec.health: syntax error at \".\""},
		{"an unknown variable", oneWith("  health: 1 == observed"),
			`f:6:16: InterpreterCustomization c: spec.health: unknown variable "observed": only spec.retain has it`},
		{"an unknown function", oneWith("  health: 'ready(object)'"),
			`f:6:17: InterpreterCustomization c: spec.health: unknown function "ready"`},
		{"a place in a block", oneWith("  health: |\n    true &&\n\n      wrong"),
			`f:9:7: InterpreterCustomization c: spec.health: unknown variable "wrong": the variable is object`},
		{"a place in a folded text", oneWith("  health: >\n    true &&\n      wrong"),
			`f:6:11: InterpreterCustomization c: spec.health: unknown variable "wrong": the variable is object`},
		{"a place in an escaped text", oneWith(`  health: "\x74rue && wrong"`),
			`f:6:11: InterpreterCustomization c: spec.health: unknown variable "wrong": the variable is object`},
		{"a place after a special character", oneWith("  health: \"'é€😀' == wrong\""),
			`f:6:21: InterpreterCustomization c: spec.health: unknown variable "wrong": the variable is object`},
		{"arguments of other types", oneWith("  health: pick(object, 'status') == {}"),
			"f:6:15: InterpreterCustomization c: spec.health: got pick(object, string): write pick(any, list)"},
		{"a health that is a text", oneWith("  health: string(object.status.phase)"),
			"f:6:11: InterpreterCustomization c: spec.health: the result: got a string, expected a bool"},
		{"replicas that are a bool", oneWith("  replicas: true"),
			"f:6:13: InterpreterCustomization c: spec.replicas: the result: got a bool, expected an int"},
		{"a patch that is a list", oneWith("  revise: '[replicas]'"),
			"f:6:12: InterpreterCustomization c: spec.revise: the result: got a list, expected an object"},
		{"an object with numbers as keys", oneWith("  prune: '{1: 2}'"),
			"f:6:11: InterpreterCustomization c: spec.prune: the result: a key of an object is an int: write a string"},
		{"components that are an object", oneWith("  components: '{\"a\": 1}'"),
			"f:6:16: InterpreterCustomization c: spec.components: the result: got an object, expected a list"},
		{"an optional of another type", oneWith("  replicas: optional.of('')"),
			"f:6:13: InterpreterCustomization c: spec.replicas: the result: got a string, expected an int"},
		{"a long expression", oneWith("  health: " + strings.Repeat("true && ", 2100) + "true"),
			"f:6:11: InterpreterCustomization c: spec.health: the expression has 16804 bytes, at most 16384: shorten it"},
		{"a large expression", oneWith("  health: " + "'[" + strings.Repeat("1,", 2000) + "1].size() == 1'"),
			"f:6:12: InterpreterCustomization c: spec.health: the expression has 2005 parts, at most 2000: shorten it"},
		{"a large document", "# " + strings.Repeat("x", 256<<10) + "\n" + oneWith("  health: true"),
			"f:2: the document has 262308 bytes, at most 262144: split it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := customization.New(customization.File{Name: "f", Text: []byte(tt.text)})
			var mistake *customization.Error
			if !errors.As(err, &mistake) {
				t.Fatalf("%v is no Error", err)
			}
			if err.Error() != tt.want {
				t.Errorf("\n%s, want\n%s", err, tt.want)
			}
		})
	}
}

// TestErrorNamesBothFiles checks that a mistake in two files names both files, also files without a name.
func TestErrorNamesBothFiles(t *testing.T) {
	one := oneWith("  health: true")
	for _, tt := range []struct{ name, first, second, want string }{
		{"a name", one, strings.Replace(one, "kind: T", "kind: U", 1),
			`f:3:18: InterpreterCustomization c: metadata.name: "c" is the name of the customization at file 1:3 already`},
		{"a target", one, strings.Replace(one, "name: c", "name: d", 1),
			"f:5:13: InterpreterCustomization d: spec.targets[0]: T of example.com/v1 is a target of customization c at file " +
				"1:3 already"},
		{"the first file", "a: [", one, "file 1:1: invalid YAML: did not find expected node content"},
	} {
		_, err := customization.New(customization.File{Text: []byte(tt.first)},
			customization.File{Name: "f", Text: []byte(tt.second)})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestUnusualDocumentsAreAccepted checks unusual documents without mistakes.
func TestUnusualDocumentsAreAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":     "",
		"comments":    "# nothing\n---\n# here\n",
		"a number":    oneWith("  replicas: 3"),
		"an optional": oneWith("  replicas: object.spec.?replicas"),
		"JSON":        `{"apiVersion":"config.karmada.io/v1alpha1","kind":"InterpreterCustomization","metadata":{"name":"c"},"spec":{"targets":[{"apiVersion":"v1","kind":"T"}],"health":"true"}}`,
		"labels": strings.Replace(oneWith("  health: true"), "{name: c}",
			"{name: c, labels: {a: b}, resourceVersion: '4'}", 1),
		"anchors":             oneWith("  status: &s object.status\n  prune: *s"),
		"an object of types":  oneWith("  status: \"{'a': 1, 'b': 'x', 'c': [1, 'x']}\""),
		"the API server's":    strings.Replace(oneWith("  health: true"), "example.com/v1", "v1", 1),
		"a version with star": strings.Replace(oneWith("  health: true"), "example.com/v1", `"*.example.com/*"`, 1),
	} {
		if _, err := customization.New(customization.File{Name: name, Text: []byte(text)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTotalSizeOfExpressionsIsLimited checks that the total size of all expressions is limited, in addition to the
// size of each expression.
func TestTotalSizeOfExpressionsIsLimited(t *testing.T) {
	var files []customization.File
	health := "  health: '[" + strings.Repeat("1,", 1900) + "1].size() == 1'"
	for n := range 55 {
		text := strings.Replace(oneWith(health), "kind: T}", fmt.Sprintf("kind: T%d}", n), 1)
		text = strings.Replace(text, "name: c", fmt.Sprintf("name: c%d", n), 1)
		files = append(files, customization.File{Name: "f", Text: []byte(text)})
	}
	_, err := customization.New(files...)
	if err == nil || !strings.Contains(err.Error(), "all expressions together have more than 100000 parts") {
		t.Error(err)
	}
}

// FuzzLoad checks that a document is accepted, or that the error is an Error with a line.
func FuzzLoad(f *testing.F) {
	f.Add(oneWith("  health: true"))
	f.Add(oneWith("  health: |\n    true &&\n      wrong"))
	f.Add(oneWith("  requirements: >\n    podRequirements(object)\n  replicas: \"1\""))
	f.Add("{\"kind\": \"InterpreterCustomization\", \"spec\": {}}")
	f.Add("a: &a [*a]\n---\n- 'x")
	i, err := customization.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var err error
		hostiletest.Check(t, func() { err = i.Set(customization.File{Name: "f", Text: []byte(text)}) })
		var mistake *customization.Error
		if err != nil && (!errors.As(err, &mistake) || mistake.Line < 1 || mistake.Line > 2+strings.Count(text, "\n") ||
			len(err.Error()) > 8<<10) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
