// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestStepsOfApplication checks that the steps of a template on all clusters have a common limit.
func TestStepsOfApplication(t *testing.T) {
	var names []string
	for i := range 41 {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	template := "{{ range 90000 }}{{ end }}" + configMap("text")
	if _, err := render.Render(application(t, template), clusters(t, names[:2]...), objects{}, nil); err != nil {
		t.Error(err)
	}
	_, err := render.Render(application(t, template), clusters(t, names...), objects{}, nil)
	if err == nil || !strings.Contains(err.Error(), "the templates of the application take more than") {
		t.Errorf("%v", err)
	}
}

// objects maps the text of a Ref to its value.
type objects map[string]string

func (o objects) Value(ref values.Ref) (string, error) {
	if value, ok := o[ref.String()]; ok {
		return value, nil
	}
	return "", &values.MissingError{Ref: ref, Problem: "it is not there"}
}

const secret = "Secret ns/s, key k"

func application(t *testing.T, template string) *document.Document {
	t.Helper()
	text := "apiVersion: hub.spokewire.io/v1alpha1\nkind: Application\nmetadata: {name: shop}\nspec:\n  parts:\n  - " +
		"name: a\n    manifests:\n    - template: |\n"
	for line := range strings.Lines(template) {
		text += "        " + line
	}
	d, err := document.DecodeOne(
		[]byte(text + "\n  - name: b\n    dependsOn: [{part: a, wait: 2s}]\n    manifests: [{hook: pre-install, template: " +
			"'{}'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	d.Object.(*document.Application).Spec.Parts[1].Manifests[0].Template = "# nothing"
	return d
}

func clusters(t *testing.T, names ...string) (out []*document.Cluster) {
	t.Helper()
	for _, name := range names {
		c := &document.Cluster{}
		c.Metadata = document.Metadata{Name: name, Labels: map[string]string{"region": "north", "example.com/tier": "1"}}
		out = append(out, c)
	}
	return out
}

func configMap(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: ns}\ndata: {v: " + data + "}\n"
}

func TestRender(t *testing.T) {
	for template, want := range map[string]string{
		configMap("{{ .Cluster.Name }}"):                                    `{"v":"c1"}`,
		configMap("{{ .Cluster.Labels.region }}"):                           `{"v":"north"}`,
		configMap(`{{ index .Cluster.Labels "example.com/tier" | quote }}`): `{"v":"1"}`,
		configMap("{{ .Application }}"):                                     `{"v":"shop"}`,
		configMap(`{{ fromSecret "ns" "s" "k" | quote }}`):                  `{"v":"it's: \"a\"\nsecret"}`,
		configMap(`{{ fromSecret "ns" "s" "k" | base64 }}`):                 `{"v":"aXQnczogImEiCnNlY3JldA=="}`,
		configMap(`{{ fromConfigMap "ns" "s" "k" }}`):                       `{"v":"plain"}`,
		configMap("x") + "---\n{{ if false }}" + configMap("y") +
			"{{ end }}\n---\n": `{"v":"x"}`,
		configMap("{{ indent 1000000000000 `a` }}"):                                                                            `{"v":"a"}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  v: |\n    {{ \"a\\nb\" | indent 4 }}\n":                `{"v":"a\nb\n"}`,
		configMap("x{{ range 3 }}{{ . }}{{ end }}"):                                                                            `{"v":"x012"}`,
		configMap("{{ range $k, $v := .Cluster.Labels }}{{ $v }}.{{ end }}"):                                                   `{"v":"1.north."}`,
		configMap("{{ range 50000 }}{{ end }}x"):                                                                               `{"v":"x"}`,
		configMap("{{ define `t` }}{{ if . }}{{ . }}{{ template `t` (slice . 1) }}{{ end }}{{ end }}{{ template `t` `abc` }}"): `{"v":"abcbcc"}`,
		configMap(`{{ printf "%-3s|%5.2f|%d" "a" 1.5 7 | quote }}`):                                                            `{"v":"a  | 1.50|7"}`,
		configMap(`{{ print "a" 1 | quote }}{{- /* no text */ -}}`):                                                            `{"v":"a1"}`,
	} {
		r, err := render.Render(application(t, template), clusters(t, "c1"),
			objects{secret: "it's: \"a\"\nsecret", "ConfigMap ns/s, key k": "plain"}, nil)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		resources := r.Apps[0].Clusters[0].Resources
		if len(resources) != 1 || !strings.Contains(string(resources[0].Manifest), `"data":`+want) {
			t.Errorf("%s: %s, want %s", template, resources, want)
		}
		if d := r.Apps[1].DependsOn[0]; d.App != "a" || d.Status != "Ready" || d.Wait.Seconds() != 2 {
			t.Errorf("%+v", r.Apps[1])
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, tt := range []struct{ reason, template, problem string }{
		{"no template", "{{ if }}", "missing value for if"},
		{"an unknown function", "{{ fromFile }}", `function "fromFile" not defined`},
		{"an unknown variable", "{{ .Cluster.Namme }}", "for the cluster c1:"},
		{"a label that is not there", "{{ .Cluster.Labels.zone }}", `no entry for key "zone"`},
		{"no YAML", `a: [{{ fromSecret "ns" "s" "k" }}`, "not valid YAML"},
		{"no YAML, at no line", "a: b: {{ fromSecret `ns` `s` `k` }}", "for the cluster c1: its output is not valid YAML$"},
		{"a field twice", configMap(`x, v: {{ fromSecret "ns" "s" "k" }}`), "not valid YAML"},
		{"no object", `- {{ fromSecret "ns" "s" "k" }}`, "neither a YAML nor a JSON object"},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}", "no kind"},
		{"an object twice", configMap("x") + "---\n" + configMap("y"), "already in app"},
		{"without end", `{{ range 1000000 }}{{ printf "%1000d" 1 }}{{ end }}`, "bytes of output"},
		{"a loop that makes nothing", "a: b\n{{ range 1000000000000 }}{{ end }}", "for the cluster c1: line 2: more than"},
		{"a loop that goes on", "{{ range 1000000000000 }}{{ continue }}{{ end }}", "line 1: more than"},
		{"a loop in a loop", "{{ range 10000 }}{{ if 1 }}{{ with 1 }}{{ range 10000 }}{{ end }}{{ end }}{{ end }}{{ end }}",
			"line 1: more than"},
		{"a template of itself", "{{ define `t` }}{{ template `t` }}{{ end }}\n{{ template `t` }}", "line 1: more than"},
		{"two of itself", "{{ define `t` }}{{ if lt (len .) 60 }}{{ template `t` (print . 1) }}{{ template `t` (print . 1) " +
			"}}{{ end }}{{ end }}\n{{ template `t` `` }}", "line 1: more than"},
		{"work in texts", "{{ $x := printf `%999999d` 1 }}{{ range 1000 }}{{ $y := print $x }}{{ end }}", "more than"},
		{"the step of ours", "{{ step 1 1 }}", `function "step" not defined`},
		{"a wide indent", "{{ indent 2000000000 `a\nb` }}", "error calling indent: more than 1048576 bytes of output"},
		{"a wide indent of lines", "{{ $x := `\n\n` }}{{ range 9 }}{{ $x = print $x $x }}{{ end }}{{ indent 2000 $x }}",
			"error calling indent: more than"},
		{"a text that doubles", "{{ $x := `12345678` }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
			"error calling print: more than 1048576 bytes of output"},
		{"a quote that doubles", "{{ $x := `\"` }}{{ range 60 }}{{ $x = quote $x }}{{ end }}",
			"error calling quote: more than"},
		{"base64 that grows", "{{ $x := `12345678` }}{{ range 100 }}{{ $x = base64 $x }}{{ end }}",
			"error calling base64: more than"},
		{"a verb that doubles", "{{ $x := `12345678` }}{{ range 60 }}{{ $x = printf `%[1]s%[1]s` $x }}{{ end }}",
			"error calling printf: more than"},
		{"a wide verb", "{{ $x := printf `" + strings.Repeat("%999999d", 100) + "` 1 }}",
			"error calling printf: the result may have more than"},
		{"a width from outside", "{{ $x := printf `" + strings.Repeat("%[1]*[1]d", 100) + "` 1000000 }}",
			"error calling printf: the result may have more than"},
		{"html", "{{ $x := printf `%999999d` 1 }}{{ $y := html $x $x }}", "error calling html: more than"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := render.Render(application(t, tt.template), clusters(t, "c1"), objects{secret: "s3cr3t"}, nil)
			var wrong *document.Error
			if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "spec.parts") ||
				!strings.Contains(err.Error()+"$", tt.problem) || errors.As(err, new(*values.MissingError)) {
				t.Errorf("%v, want %q", err, tt.problem)
			}
			if strings.Contains(fmt.Sprint(err), "s3cr3t") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
	// Templates are parsed even if they are not rendered.
	if _, err := render.Render(application(t, "{{ if }}"), nil, objects{}, nil); err == nil {
		t.Error("a broken template of an application that is nowhere is taken")
	}
}

// TestAliases checks that a short template that renders many aliases of a long value is refused
// before they are replaced.
func TestAliases(t *testing.T) {
	const template = `apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: ns}
data: &a {v: "{{ printf "%100000d" 1 }}"}
b: [{{ range 9000 }}*a,{{ end }}]
`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := render.Render(application(t, template), clusters(t, "c1"), objects{}, nil)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(),
		"spec.parts[0].manifests[0].template: for the cluster c1: the document has more than 3145728 bytes with its "+
			"aliases replaced") {
		t.Errorf("%.200v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
		t.Errorf("%d bytes of template allocated %d MiB", len(template), allocated>>20)
	}
}

// TestManyClusters checks that a short template with a large rendering for each cluster is refused
// before it takes much memory.
func TestManyClusters(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("c", i))
	}
	template := configMap(`"{{ printf "%100000d" 1 }}"`) +
		"a: &a \"{{ printf `%100000d` 1 }}\"\nb: [{{ range 28 }}*a,{{ end }}]\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := render.Render(application(t, template), clusters(t, names...), objects{}, nil)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "the application makes more than 29884416 bytes for 200 clusters") {
		t.Errorf("%.200v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 512<<20 {
		t.Errorf("%d bytes of template allocated %d MiB", len(template), allocated>>20)
	}
}

func TestMissing(t *testing.T) {
	d := application(t, configMap(`{{ fromSecret "ns" "s" "k" }}`))
	_, err := render.Render(d, clusters(t, "c1"), objects{}, nil)
	var missing *values.MissingError
	if !errors.As(err, &missing) || missing.Ref.Name != "s" ||
		!strings.Contains(err.Error(), "spec.parts[0].manifests[0].template") {
		t.Errorf("%v", err)
	}
	_, err = render.Render(d, clusters(t, "c1"), render.Without, nil)
	if err == nil || errors.As(err, &missing) && missing.Problem == "" ||
		!strings.Contains(err.Error(), "no --kubeconfig") {
		t.Errorf("%v", err)
	}
}

// TestBinary checks that a value that is not valid UTF-8 is an error. The value is neither changed
// nor shown.
func TestBinary(t *testing.T) {
	o := objects{secret: "\xff\xfes3cr3t"}
	_, err := render.Render(application(t, configMap(`{{ fromSecret "ns" "s" "k" | quote }}`)), clusters(t, "c1"), o, nil)
	if err == nil || !strings.Contains(err.Error(), "not valid UTF-8: use base64") ||
		strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("%v", err)
	}
	if _, err := render.Render(application(t, configMap(`{{ fromSecret "ns" "s" "k" | base64 | quote }}`)),
		clusters(t, "c1"), o, nil); err != nil {
		t.Error(err)
	}
}

// TestDigest checks that the digest depends on the values and the clusters, and not on the origin
// of the values.
func TestDigest(t *testing.T) {
	d := application(t, configMap(`{{ fromSecret "ns" "s" "k" }}`))
	digest := func(o values.Reader, names ...string) string {
		t.Helper()
		r, err := render.Render(d, clusters(t, names...), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{secret: r.Values[secret]}, r.Values); diff != "" {
			t.Error(diff)
		}
		return r.Digest()
	}
	one := digest(objects{secret: "1"}, "c1")
	if one != digest(values.Kept{Values: map[string]string{secret: "1"}, Other: render.Without}, "c1") {
		t.Error("a value that was kept makes a difference")
	}
	if one == digest(objects{secret: "2"}, "c1") || one == digest(objects{secret: "1"}, "c1", "c2") {
		t.Error("another value or cluster makes no difference")
	}
}

// FuzzRender checks that each template ends with a rendering or an Error.
func FuzzRender(f *testing.F) {
	for _, template := range []string{
		configMap(`{{ fromSecret "ns" "s" "k" | quote | indent 4 }}`),
		"{{ define `template` }}{{ template `template` . }}{{ end }}{{ block `b` . }}{{ break }}{{ end }}",
		"{{ range $i, $x := .Cluster.Labels }}{{ if eq $x 1 2 }}{{ continue }}{{ else if and 1 .x }}{{ break }}{{ end }}{{ " +
			"else }}{{ (index . 1).y }}{{ end }}",
		"{{ with $x := printf `%[1]*d` 9 }}{{ range 99999999 }}{{ $x = print $x $x | html | js | urlquery | base64 }}{{ " +
			"end }}{{ else with 1 }}{{ end }}", "{{/* a */}}{{ len `b` }}",
	} {
		f.Add(template)
	}
	d, err := document.DecodeOne(
		[]byte("apiVersion: hub.spokewire.io/v1alpha1\nkind: Application\nmetadata: {name: shop}\nspec: {parts: [{name: a, " +
			"manifests: [{template: x}]}]}"))
	if err != nil {
		f.Fatal(err)
	}
	c := &document.Cluster{}
	c.Metadata = document.Metadata{Name: "c1", Labels: map[string]string{"region": "north"}}
	f.Fuzz(func(t *testing.T, template string) {
		one := *d
		one.Object = &document.Application{Spec: document.ApplicationSpec{
			Parts: []document.Part{{Name: "a", Manifests: []document.Manifest{{Template: template}}}},
		}}
		began := time.Now()
		_, err := render.Render(&one, []*document.Cluster{c}, objects{secret: "s3cr3t"}, nil)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if err != nil && !errors.As(err, new(*document.Error)) {
			t.Errorf("%v is no Error", err)
		}
	})
}

// TestLabels checks that each object has the label of its application, and keeps its other content.
func TestLabels(t *testing.T) {
	const label = `"hub.spokewire.io/application":"shop"`
	for manifest, want := range map[string]string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {k: '1'}}": `{"apiVersion":"v1",` +
			`"data":{"k":"1"},"kind":"ConfigMap","metadata":{"labels":{` + label + `},"name":"a","namespace":"x"}}`,
		"{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {z: v, hub.spokewire.io/application: b}}}": `{` +
			`"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{` + label + `,"z":"v"},"name":"a"}}`,
		"{apiVersion: example.com/v1, kind: Num, metadata: {name: a, labels: null}, number: 12345678901234567890}": `{` +
			`"apiVersion":"example.com/v1","kind":"Num","metadata":{"labels":{` + label +
			`},"name":"a"},"number":12345678901234567890}`,
	} {
		r, err := render.Render(application(t, manifest), clusters(t, "c1"), render.Without, nil)
		if err != nil {
			t.Errorf("%s: %v", manifest, err)
			continue
		}
		for _, resource := range appcontext.Resources(r.Apps) {
			if got := string(resource.Manifest); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
	if _, err := render.Render(application(t, "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: [z]}}"),
		clusters(t, "c1"), render.Without, nil); err == nil || !strings.Contains(err.Error(), "metadata.labels") {
		t.Errorf("%v, want the wrong field", err)
	}
}
