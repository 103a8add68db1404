// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/schema"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/testing/schematest"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

const head = "apiVersion: hub.spokewire.io/v1alpha1\n"

func TestDecodeRefuses(t *testing.T) {
	part := head + "kind: Application\nmetadata: {name: shop}\nspec:\n  parts:\n  - name: a\n    manifests: [{template: x}]\n"
	for _, tt := range []struct{ reason, text, field, problem string }{
		{"no YAML", "a: [", "", "invalid YAML"},
		{"a field twice", head + "kind: Cluster\nkind: Cluster\n", "kind", "already set"},
		{"a list", "[1]", "", "array"},
		{"no kind", head, "kind", `"": must be one of Cluster, Application`},
		{"another version", "apiVersion: v1\nkind: Cluster\n", "apiVersion", `must be "hub.spokewire.io/v1alpha1"`},
		{"no name", head + "kind: Cluster\n", "metadata.name", "required"},
		{"a name that no namespace can have", head + "kind: Cluster\nmetadata: {name: A/b}\n", "metadata.name", "lower case"},
		{"an unknown field", head + "kind: Cluster\nmetadata: {name: a, lables: {}}\n", "metadata.lables", "unknown field"},
		{"an unknown field within a list", strings.Replace(part, "template", "tmplate", 1),
			"spec.parts[0].manifests[0].tmplate", "unknown field"},
		{"fields have one spelling", head + "kind: Cluster\nmetadata: {Name: a}\n", "metadata.Name", "unknown field"},
		{"a value of another type", head + "kind: Cluster\nmetadata: {name: 7}\n", "metadata.name",
			"must be a string, not a number"},
		{"a name that YAML takes for something else", head + "kind: Cluster\nmetadata: {name: y}\n", "metadata.name",
			"must be a string, not a bool: put it in quotes"},
		{"a label of another type", head + "kind: Cluster\nmetadata: {name: a, labels: {a: b, region: 1}}\n",
			"metadata.labels.region", "must be a string, not a number"},
		{"a label with a prefix", head + "kind: Cluster\nmetadata: {name: a, labels: {example.com/n: {a: b}}}\n",
			"metadata.labels[example.com/n]", "must not be an object"},
		{"another type within a list", strings.Replace(part, "template: x", "template: x}, {template: [y]", 1),
			"spec.parts[0].manifests[1].template", "must not be an array"},
		{"a list of another type", strings.Replace(part, "[{template: x}]", "x", 1), "spec.parts[0].manifests",
			"must not be a string"},
		{"a time of another type", part + "    dependsOn: [{part: a, wait: {a: 1}}]\n", "spec.parts",
			"must not be an object"},
		{"a text that is no time", part + "    dependsOn: [{part: a, wait: soon}]\n", "spec.parts[0].dependsOn[0].wait",
			"must be a duration"},
		{"a kind of another type", head + "kind: [Cluster]\n", "kind", "must not be an array"},
		{"a label that is none", head + "kind: Cluster\nmetadata: {name: a, labels: {'a b': c}}\n", "metadata.labels", "a b"},
		{"an application of nothing", head + "kind: Application\nmetadata: {name: a}\nspec: {}\n", "spec.parts",
			"at least one"},
		{"two parts of a name", part + "  - name: a\n    manifests: [{template: x}]\n", "spec.parts[1].name", "Duplicate"},
		{"an unknown part", part + "    dependsOn: [{part: b}]\n", "spec.parts[0].dependsOn[0].part", "Not found"},
		{"an unknown condition", part + "    dependsOn: [{part: a, condition: Done}]\n",
			"spec.parts[0].dependsOn[0].condition", `"Deployed", "Ready"`},
		{"parts that wait for each other",
			part + "    dependsOn: [{part: b}]\n  - name: b\n    dependsOn: [{part: a}]\n    manifests: [{template: x}]\n",
			"spec.parts[0].dependsOn", "a for b for a"},
		{"a hook that there is not", strings.Replace(part, "template", "hook: now, template", 1),
			"spec.parts[0].manifests[0].hook", "pre-install"},
		{"an empty template", strings.Replace(part, "template: x", "template: ' '", 1), "spec.parts[0].manifests[0].template",
			"Required"},
		{"a placement of nothing",
			head + "kind: Placement\nmetadata: {name: a}\nspec: {applications: [], clusters: {selector: {}}}\n",
			"spec.applications", "Required"},
		{"a placement nowhere", head + "kind: Placement\nmetadata: {name: a}\nspec: {applications: [b], clusters: {}}\n",
			"spec.clusters", "must have names or a selector"},
		{"a selector that is none",
			head + "kind: Placement\nmetadata: {name: a}\nspec: {applications: [b], clusters: {selector: {matchExpressions: " +
				"[{key: a, operator: Is}]}}}\n",
			"spec.clusters.selector.matchExpressions[0].operator", "not a valid selector operator"},
		{"a webhook without a server",
			"apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterWebhookConfiguration\nmetadata: {name: " +
				"a}\nwebhooks: [{name: a.b.c}]\n",
			"webhooks[0].", ""},
		{"too large", head + "# " + strings.Repeat("x", document.MaxBytes), "", "bytes"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			refusedBySchema(t, tt.reason, tt.text)
			_, err := document.Decode([]byte("# nothing\n---\n"+head+"kind: Cluster\nmetadata: {name: first}\n---\n"+tt.text),
				"some.yaml")
			var wrong *document.Error
			if !errors.As(err, &wrong) || wrong.Where != "some.yaml, document 2" || !strings.HasPrefix(wrong.Field, tt.field) ||
				tt.field == "" && wrong.Field != "" || !strings.Contains(wrong.Problem, tt.problem) {
				t.Errorf("%+v, want %q: %q", err, tt.field, tt.problem)
			}
		})
	}
}

// beyondSchema are the reasons to refuse a document that a JSON Schema cannot express.
var beyondSchema = sets.New(
	"two parts of a name", "an unknown part", "parts that wait for each other",
	"minSuccessTime: 1s, until: Deployed", "minSuccessTime: 1m, progressDeadline: 1m",
	"groups: [{name: canary, clusters: {names: [c1]}}, {name: canary, clusters: {selector: {}}}]",
	"groups: [{name: canary, clusters: {names: [c1]}}, {name: b, clusters: {names: [c2, c1]}}]",
)

// schemas has the published JSON Schema.
var schemas = sync.OnceValues(func() (*schematest.Document, error) { return schematest.New(schema.Documents) })

// valid returns why a document in YAML or JSON does not conform to the schema.
func valid(t *testing.T, text []byte) error {
	t.Helper()
	published, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return err
	}
	return published.Validate("", text)
}

// refusedBySchema checks that the schema refuses a document too, if it can.
func refusedBySchema(t *testing.T, reason, text string) {
	t.Helper()
	if err := valid(t, []byte(text)); (err == nil) != beyondSchema.Has(reason) {
		t.Errorf("%s: the schema refuses it with %v", reason, err)
	}
}

func decode(t *testing.T, text string) []*document.Document {
	t.Helper()
	all, err := document.Decode([]byte(text), "some.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if err := valid(t, d.JSON); err != nil {
			t.Errorf("%s does not conform to the schema: %v", d.Where, err)
		}
	}
	return all
}

const fleet = head + `kind: Cluster
metadata: {name: c1, labels: {region: north}}
---
` + head + `kind: Cluster
metadata: {name: c2, labels: {region: south}}
---
` + head + `kind: Cluster
metadata: {name: c3}
---
` + head + `kind: Application
metadata: {name: shop}
spec: {parts: [{name: a, manifests: [{template: x}]}]}
`

func TestPlacement(t *testing.T) {
	for clusters, want := range map[string]string{
		"names: [c3, c1]": "c1 c3",
		"selector: {}":    "c1 c2 c3",
		"selector: {matchLabels: {region: east}}":                                         "",
		"selector: {matchLabels: {region: north}}, names: [c1, c2]":                       "c1 c2",
		"selector: {matchExpressions: [{key: region, operator: Exists}]}":                 "c1 c2",
		"selector: {matchExpressions: [{key: region, operator: NotIn, values: [north]}]}": "c2 c3",
	} {
		set, err := document.NewSet(decode(t, fleet+"---\n"+head+
			"kind: Placement\nmetadata: {name: p}\nspec: {applications: [shop], clusters: {"+clusters+"}}\n")...)
		if err == nil {
			err = set.Validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range set.On("shop") {
			got = append(got, c.Metadata.Name)
		}
		if strings.Join(got, " ") != want || set.On("other") != nil && len(set.On("other")) > 0 {
			t.Errorf("%s: %v, want %s", clusters, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for spec, want := range map[string]string{
		"applications: [shop, stop], clusters: {selector: {}}": `some.yaml, document 5: spec.applications[1]: there is no Application "stop"`,
		"applications: [shop], clusters: {names: [c1, c9]}":    `some.yaml, document 5: spec.clusters.names[1]: there is no Cluster "c9"`,
	} {
		set, err := document.NewSet(decode(t, fleet+"---\n"+head+"kind: Placement\nmetadata: {name: p}\nspec: {"+spec+
			"}\n")...)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := document.NewSet(append(decode(t, fleet), decode(t, head+"kind: Cluster\nmetadata: {name: c2}\n")...)...)
	if err == nil || !strings.Contains(err.Error(), "another Cluster c2 is in some.yaml, document 2") {
		t.Errorf("%v", err)
	}
}

func TestSet(t *testing.T) {
	set, err := document.NewSet(decode(t, fleet)...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.DecodeOne([]byte(head + "kind: Cluster\nmetadata: {name: c4}\n"))
	if err != nil || d.WithName(document.ClusterKind, "c4") != nil || d.WithName(document.ClusterKind, "c5") == nil ||
		d.WithName(document.PlacementKind, "c4") == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	more := set.With(d)
	less := more.Without(document.Key{Kind: document.ClusterKind, Name: "c1"})
	if set.Len() != 4 || more.Len() != 5 || less.Len() != 4 || less.Document(document.ClusterKind, "c1") != nil ||
		set.Document(document.ClusterKind, "c4") != nil {
		t.Errorf("%d, %d, %d", set.Len(), more.Len(), less.Len())
	}
	for _, text := range []string{"", fleet, head + "kind: Cluster\nmetadata: {name: A}\n"} {
		if _, err := document.DecodeOne([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "the body: ") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// FuzzDecode checks that any input results in documents or an Error.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"clusters", "shop", "placements", "webhooks"} {
		data, err := os.ReadFile("../../samples/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := document.Decode(data, "f")
		if err != nil && !errors.As(err, new(*document.Error)) {
			t.Errorf("%v is no Error", err)
		}
		for _, d := range all {
			if d.Name == "" || d.Object == nil || !strings.HasPrefix(d.Where, "f, document ") {
				t.Errorf("%+v", d)
			}
		}
	})
}

// TestDecodeBoundsMemory checks that the mistakes of a large document take little more memory than
// its parsing.
func TestDecodeBoundsMemory(t *testing.T) {
	kind := func(kind document.Kind, fields string) string {
		version := document.APIVersion
		if kind == document.InterpretingKind {
			version = "config.karmada.io/v1alpha1"
		}
		return `{"apiVersion":"` + version + `","kind":"` + string(kind) + `","metadata":{"name":"a"},` + fields
	}
	selector := kind(document.PlacementKind, `"spec":{"applications":["a"],"clusters":{"selector":{"matchExpressions":`)
	var names, wrong strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&names, `,"cluster-%d"`, i)
		fmt.Fprintf(&wrong, `,"%d":"!"`, i)
	}
	list := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	for _, tt := range []struct{ name, text, problem string }{
		{"rules", kind(document.InterpretingKind, `"webhooks":[{"rules":`+list(101_000, "{}")+`}]}`),
			"must have at most 100000 fields and elements"},
		{"fewer rules", kind(document.InterpretingKind, `"webhooks":[{"rules":`+list(49_000, "{}")+`}]}`), "qualified name"},
		{"webhooks", kind(document.InterpretingKind, `"webhooks":`+list(49_000, "{}")+`}`), "Too many: 49000"},
		{"parts", kind(document.ApplicationKind, `"spec":{"parts":`+list(101_000, "{}")+`}}`), "at most 100000"},
		{"fewer parts", kind(document.ApplicationKind, `"spec":{"parts":`+list(49_000, "{}")+`}}`), "RFC 1123 label"},
		{"manifests", kind(document.ApplicationKind, `"spec":{"parts":[{"name":"a","manifests":`+
			list(49_000, `{"template":""}`)+`}]}}`), "the template of the objects"},
		{"dependencies", kind(document.ApplicationKind,
			`"spec":{"parts":[{"name":"a","manifests":[{"template":"a"}],"dependsOn":`+list(49_000, `{"part":"b"}`)+`}]}}`),
			"Duplicate"},
		{"requirements", selector + list(101_000, "{}") + "}}}}", "at most 100000"},
		{"fewer requirements", selector + list(49_000, "{}") + "}}}}", "not a valid selector operator"},
		{"values", selector + `[{"key":"a","operator":"In","values":` + list(99_000, `"!"`) + "}]}}}}", "a valid label must"},
		{"labels", strings.Replace(kind(document.ClusterKind, ""), `"a"},`, `"a","labels":{`+wrong.String()[1:]+"}}}", 1),
			"a valid label must"},
		{"a large placement", kind(document.PlacementKind, `"spec":{"applications":["a"],"clusters":{"names":["a"`+
			names.String()+`]}}}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parsing, _ := alloctest.Cost(func() {
				if _, err := yamldoc.StrictJSON([]byte(tt.text)); err != nil {
					t.Fatal(err)
				}
			})
			var err error
			allocated, took := alloctest.Cost(func() { _, err = document.Decode([]byte(tt.text), "some.yaml") })
			if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("%.200v, want %q", err, tt.problem)
			}
			if t.Logf("allocated %d MiB, %d of them to parse %d bytes", allocated>>20, parsing>>20,
				len(tt.text)); allocated > parsing+48<<20 || took > 30*time.Second {
				t.Errorf("allocated %d MiB in %s, and %d MiB to parse it", allocated>>20, took, parsing>>20)
			}
		})
	}
}
