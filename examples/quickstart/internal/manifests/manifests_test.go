// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/manifests"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// folder returns a folder with files. Names and texts alternate.
func folder(namesAndTexts ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(namesAndTexts); i += 2 {
		m[namesAndTexts[i]] = &fstest.MapFile{Data: []byte(namesAndTexts[i+1])}
	}
	return m
}

func TestLoad(t *testing.T) {
	files, err := manifests.Load(folder(
		"B_Second.yml", "# only a comment\n---\n"+configMap+
			"---\n\n--- # another\r\napiVersion: v1\r\nkind: Secret\r\nmetadata:\r\n  name: s\r\n...\n",
		"a.yaml", "\ufeffapiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: x, "+
			"namespace: ns}, spec: {ports: [{port: 80}]}}\n"+
			"- {apiVersion: v1, kind: Service, metadata: {name: z}}\n",
		"c.json", "{\"apiVersion\": \"v1\",\n\t\"kind\": \"Namespace\", \"metadata\": {\"name\": \"n\"}}\n{\"apiVersion\": "+
			"\"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"m\"}}",
		"README.md", "not a manifest",
		".hidden.yaml", "}",
		"sub/d.yaml", "}",
	), "demo")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		for _, o := range f.Objects {
			got = append(got, f.Work+" | "+o.String()+" | "+o.Where)
		}
	}
	want := []string{
		`b-second | ConfigMap "a" | B_Second.yml, document 1 (line 3)`,
		`b-second | Secret "s" | B_Second.yml, document 2 (line 9)`,
		`a | Service "ns/x" | a.yaml, document 1 (line 1), item 1`,
		`a | Service "z" | a.yaml, document 1 (line 1), item 2`,
		`c | Namespace "n" | c.json, document 1 (line 1)`,
		`c | Namespace "m" | c.json, document 2 (line 3)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	port := files[1].Objects[0].Object["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["port"]
	if _, ok := port.(int64); !ok {
		t.Errorf("a whole number is a %T, want int64", port)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct {
		reason string
		files  fstest.MapFS
		want   []string
	}{
		{"an empty folder", folder(), []string{"manifests folder demo", "the folder has no .yaml"}},
		{"no manifest among the files", folder("README.md", "x"), []string{"the folder has no .yaml"}},
		{"a file without objects", folder("a.yaml", "# later\n---\n"), []string{"a.yaml: the file has no object"}},
		{"bad YAML in the second document", folder("a.yaml", configMap+"---\nkind: X\n  bad: [\n"),
			[]string{"a.yaml, document 2 (line 5)", "bad YAML", "line 6"}},
		{"a key twice", folder("a.yaml", configMap+"kind: Secret\n"),
			[]string{"a.yaml, document 1", "line 4", "already set"}},
		{"bad JSON", folder("a.json", "{\"kind\": \"X\"}\n{\n\"kind\": }"),
			[]string{"a.json, document 2 (line 2): bad JSON: line 3: invalid character"}},
		{"JSON cut short", folder("a.json", "{\n\"kind\": "),
			[]string{"a.json, document 1 (line 1): bad JSON: line", "unexpected EOF"}},
		{"a key twice in JSON", folder("a.json", "{\"kind\": \"X\",\n\"kind\": \"Y\"}"),
			[]string{"a.json, document 1 (line 1): bad JSON:", "line 2:", "already set"}},
		{"no apiVersion", folder("a.yaml", "kind: X\nmetadata: {name: a}"),
			[]string{"a.yaml, document 1 (line 1): no apiVersion"}},
		{"no kind", folder("a.yaml", "apiVersion: v1\nmetadata: {name: a}"), []string{"a.yaml, document 1", "no kind"}},
		{"no name", folder("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}"),
			[]string{"a.yaml, document 1", "Pod: no metadata.name"}},
		{"metadata of a wrong type", folder("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: x"),
			[]string{"Pod: no metadata.name"}},
		{"a name that YAML takes for a boolean", folder("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: y}"),
			[]string{"Pod: bad metadata", "must be quoted", `field "metadata.name": bool where string is expected`}},
		{"a label that YAML takes for a boolean",
			folder("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {on: yes}}"),
			[]string{"Pod: bad metadata", "metadata.labels"}},
		{"an apiVersion that is none", folder("a.yaml", "apiVersion: a/b/c\nkind: Pod\nmetadata: {name: x}"),
			[]string{"a.yaml, document 1", "a/b/c"}},
		{"a list at the top", folder("a.yaml", "- a\n- b"), []string{"a.yaml, document 1", "not an object, but a list"}},
		{"a bad item of a List", folder("a.yaml", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]"),
			[]string{"document 1 (line 1), item 1: no kind"}},
		{"two files, one work",
			folder("a.yaml", configMap, "A.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`),
			[]string{"A.json and a.yaml", `the work "a"`}},
		{"two files, one object",
			folder("a.yaml", configMap, "b.yaml", strings.Replace(configMap, "name: a", "name: a, namespace: default", 1)),
			[]string{"b.yaml, document 1", `ConfigMap "default/a"`, "already in a.yaml, document 1"}},
		{"a name without a letter", folder("___.yaml", configMap), []string{"___.yaml: the name is not valid for a work"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := manifests.Load(tt.files, "demo")
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true}]}
`

func TestCheckKinds(t *testing.T) {
	widget := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
	for _, tt := range []struct {
		reason string
		files  fstest.MapFS
		want   string
	}{
		{"built-in kinds and one whose definition comes later", folder("a.yaml", configMap+"---\n"+widget, "b.yaml", crd),
			""},
		{"a kind nobody defines", folder("a.yaml", configMap+"---\n"+widget),
			`a.yaml, document 2 (line 5): unknown kind "Widget" in "example.com/v1"`},
		{"a version that the definition lacks", folder("a.yaml", strings.Replace(widget, "/v1", "/v2", 1), "b.yaml", crd),
			`unknown kind "Widget" in "example.com/v2"`},
		{"a definition without group", folder("b.yaml", strings.Replace(crd, "{group: example.com, ", "{", 1)),
			"b.yaml, document 1 (line 1): the CustomResourceDefinition"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			files, err := manifests.Load(tt.files, "demo")
			if err != nil {
				t.Fatal(err)
			}
			err = manifests.CheckKinds(files, func(gvk schema.GroupVersionKind) (bool, error) {
				_, ok := kinds.BuiltIn(gvk)
				return ok, nil
			})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("CheckKinds: %v; want %q", err, tt.want)
			}
		})
	}
}

func TestCheckFields(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: "
	for _, tt := range []struct {
		reason, text string
		lenient      bool
		want         string // error after the position; empty: no error
	}{
		{reason: "a field of a wrong type", text: deployment + "{replicas: two}",
			want: `Deployment "d": field "spec.replicas": string where int32 is expected`},
		{reason: "a wrong type on a real cluster", text: deployment + "{replicas: two}", lenient: true,
			want: `field "spec.replicas"`},
		{reason: "an unknown field", text: deployment + "{replicaz: 2}",
			want: `Deployment "d": unknown field "spec.replicaz"`},
		{reason: "a field that a newer cluster may know", text: deployment + "{replicaz: 2}", lenient: true},
		{reason: "a definition's field of a wrong type",
			text: strings.Replace(crd, "served: true", "served: true, schema: {openAPIV3Schema: {required: [n]}}", 1),
			want: `CustomResourceDefinition "widgets.example.com": field "spec.versions.schema.openAPIV3Schema.required": bool where string is expected`},
		{reason: "a custom kind",
			text: "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {replicas: two}\n"},
		{reason: "a built-in kind without a type",
			text: "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.example.com}\n"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			files, err := manifests.Load(folder("a.yaml", configMap+"---\n"+tt.text), "demo")
			if err != nil {
				t.Fatal(err)
			}
			err = manifests.CheckFields(files, !tt.lenient)
			if tt.want == "" && err != nil {
				t.Error(err)
			}
			if tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "a.yaml, document 2 (line 5): ") ||
				!strings.Contains(err.Error(), tt.want)) {
				t.Errorf("CheckFields: %v; want %q", err, tt.want)
			}
		})
	}
}
