// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/httpapi"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/examples/hub/schema"
	"github.com/spokewire/sdk-go/internal/testing/schematest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

var update = flag.Bool("update", false, "write the generated files")

// TestGenerated checks that the files are those of the types and routes. With -update it writes them.
func TestGenerated(t *testing.T) {
	for name, content := range map[string]any{"documents.json": documents(t), "openapi.json": openAPI(t)} {
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(content); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), want.String()); diff != "" {
			t.Errorf("%s is not up to date, run make generate: -got +want\n%s", name, diff)
		}
	}
}

// commented are the packages of types with comments.
var commented = []string{
	"examples/hub/internal/document", "examples/hub/internal/httpapi", "examples/hub/internal/hub",
	"examples/hub/internal/status", "examples/internal/rollouts", "cloudevents/join", "interpreter/v1alpha1", "rsync",
}

// reflector returns a reflector with the comments of the types.
func reflector(t *testing.T, strict bool) *jsonschema.Reflector {
	t.Helper()
	r := &jsonschema.Reflector{AllowAdditionalProperties: !strict, Anonymous: true, Namer: nameOf, Mapper: mapped}
	t.Chdir("../../..")
	for _, dir := range commented {
		if err := r.AddGoComments("github.com/spokewire/sdk-go", dir, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir("examples/hub/schema")
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = link.ReplaceAllString(strings.Join(strings.Fields(comment), " "), "$1")
	}
	return r
}

// link is a link in a comment.
var link = regexp.MustCompile(`\[\*?([\w.]+)\]`)

// named are the types by their names.
var named sync.Map

// nameOf returns the name of a type in the files. Types of statuses have names of documents.
func nameOf(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	if t.PkgPath() == reflect.TypeFor[status.Hub]().PkgPath() &&
		slices.Contains([]string{"Hub", "Application", "Cluster", "Placement", "Rollout"}, name) {
		name += "Status"
	}
	if before, ok := named.LoadOrStore(name, t); ok && before != t &&
		strings.HasPrefix(t.PkgPath(), "github.com/spokewire/") {
		panic(fmt.Sprintf("%s and %s have the same name in the files", before, t))
	}
	return name
}

func enum[T ~string](values ...T) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		out.Enum = append(out.Enum, v)
	}
	return out
}

// mapped returns the schemas of types that have their own form in JSON, or only some values.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[runtime.RawExtension]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[intstr.IntOrString]():
		percent := &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+|(100|[1-9]?[0-9])%)$`}
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer", Minimum: "0"}, percent}}
	case reflect.TypeFor[metav1.ObjectMeta]():
		r := jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, DoNotReference: true}
		meta := r.ReflectFromType(reflect.TypeFor[document.Metadata]())
		meta.Version = ""
		return meta
	case reflect.TypeFor[document.Document]():
		return &jsonschema.Schema{Ref: "#/$defs/Document"}
	case reflect.TypeFor[status.Health]():
		return enum(status.Healths...)
	case reflect.TypeFor[status.Sync]():
		return enum(status.Synced, status.OutOfSync, status.SyncUnknown)
	case reflect.TypeFor[status.Connection]():
		return enum(status.Connected, status.Silent, status.NeverJoined, status.Revoked)
	case reflect.TypeFor[rsync.Gate]():
		return enum(rsync.GateBeforeGroup, rsync.GateAfterGroup)
	case reflect.TypeFor[appcontext.OpStatus]():
		return enum(append(conditions, "")...)
	case reflect.TypeFor[metav1.LabelSelectorOperator]():
		return enum(metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
			metav1.LabelSelectorOpDoesNotExist)
	}
	return nil
}

var conditions = []appcontext.OpStatus{appcontext.OpStatusDeployed, appcontext.OpStatusReady}

// objects are the contents of documents.
var objects = map[document.Kind]any{
	document.ClusterKind: document.Cluster{}, document.ApplicationKind: document.Application{},
	document.PlacementKind:    document.Placement{},
	document.InterpretingKind: v1alpha1.ResourceInterpreterWebhookConfiguration{},
	document.ExploringKind:    v1alpha1.ResourceExploringWebhookConfiguration{},
}

// documents returns the schema of documents.
func documents(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r, defs := reflector(t, true), jsonschema.Definitions{}
	out := &jsonschema.Schema{
		Version: jsonschema.Version, Title: "A document of the hub", Type: "object", Definitions: defs,
		Required: []string{"apiVersion", "kind", "metadata"}, Properties: jsonschema.NewProperties(),
	}
	out.Properties.Set("kind", enum(document.Kinds()...))
	for _, kind := range document.Kinds() {
		object := r.Reflect(objects[kind])
		maps.Copy(defs, object.Definitions)
		version := document.APIVersion
		if kind == document.InterpretingKind || kind == document.ExploringKind {
			version = v1alpha1.GroupVersion.String()
		}
		own := defs[string(kind)]
		own.Properties.Set("apiVersion", &jsonschema.Schema{Const: version})
		own.Properties.Set("kind", &jsonschema.Schema{Const: kind})
		own.Required = slices.Compact(slices.Sorted(slices.Values(append(own.Required, "apiVersion", "kind", "metadata"))))
		is := &jsonschema.Schema{Required: []string{"kind"}, Properties: jsonschema.NewProperties()}
		is.Properties.Set("kind", &jsonschema.Schema{Const: kind})
		out.AllOf = append(out.AllOf, &jsonschema.Schema{If: is, Then: &jsonschema.Schema{Ref: "#/$defs/" + string(kind)}})
	}
	constrain(t, defs)
	return out
}

const (
	label    = `^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	labelKey = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	duration = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*)?$`
)

// constrain adds what the types do not express: the values that [document.Decode] accepts.
func constrain(t *testing.T, defs jsonschema.Definitions) {
	t.Helper()
	at := func(definition, property string) *jsonschema.Schema {
		t.Helper()
		if defs[definition] != nil {
			if s, ok := defs[definition].Properties.Get(property); ok {
				return s
			}
		}
		t.Fatalf("there is no %s.%s: update this function", definition, property)
		return nil
	}
	labels := func(s *jsonschema.Schema) {
		*s = jsonschema.Schema{
			Type: "object", PropertyNames: &jsonschema.Schema{Pattern: labelKey}, Description: s.Description,
			AdditionalProperties: &jsonschema.Schema{Type: "string", Pattern: label, MaxLength: new(uint64(63))},
		}
	}
	for _, name := range []*jsonschema.Schema{at("Metadata", "name"), at("Part", "name")} {
		name.Pattern, name.MaxLength = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, new(uint64(63))
	}
	for _, list := range []*jsonschema.Schema{
		at("ApplicationSpec", "parts"), at("Part", "manifests"), at("PlacementSpec", "applications"),
	} {
		list.MinItems = new(uint64(1))
	}
	for _, text := range []*jsonschema.Schema{
		at("Dependency", "wait"), at("Group", "wait"), at("Rollout", "minSuccessTime"), at("Rollout", "progressDeadline"),
	} {
		text.Pattern = duration
	}
	for _, limit := range []*jsonschema.Schema{at("Rollout", "maxConcurrency"), at("Group", "maxConcurrency")} {
		limit.OneOf[0].Minimum, limit.OneOf[1].Pattern = "1", `^([1-9][0-9]*|(100|[1-9][0-9]?)%)$`
	}
	labels(at("Metadata", "labels"))
	labels(at("LabelSelector", "matchLabels"))
	at("Dependency", "condition").Enum = enum(append(conditions, "")...).Enum
	at("Manifest", "hook").Enum = enum(append(appcontext.Hooks(), "")...).Enum
	at("Manifest", "template").Pattern = `\S`
	at("Group", "name").MinLength = new(uint64(1))
	defs["Group"].Required = append(defs["Group"].Required, "clusters")
	names := &jsonschema.Schema{Required: []string{"names"}, Properties: jsonschema.NewProperties()}
	names.Properties.Set("names", &jsonschema.Schema{MinItems: new(uint64(1))})
	defs["Clusters"].AnyOf = []*jsonschema.Schema{{Required: []string{"selector"}}, names}
}

// object is an object of the OpenAPI document.
type object = map[string]any

var pathValue = regexp.MustCompile(`\{(\w+)\}`)

// openAPI returns the OpenAPI document.
func openAPI(t *testing.T) object {
	t.Helper()
	r, schemas := reflector(t, false), jsonschema.Definitions{}
	content := func(value any) object {
		if _, ok := value.([]byte); ok {
			return object{"application/gzip": object{}}
		}
		s := r.Reflect(value)
		s.Version = ""
		maps.Copy(schemas, s.Definitions)
		s.Definitions = nil
		return object{"application/json": object{"schema": s}}
	}
	failure, paths := content(httpapi.Failure{}), map[string]map[string]any{}
	for _, route := range httpapi.Routes() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		responses := object{"default": object{"description": "the reason of an error", "content": failure}}
		for _, code := range route.Codes {
			responses[fmt.Sprint(code)] = object{"description": "success", "content": content(route.Answer)}
		}
		operation := object{"summary": route.Summary, "responses": responses, "operationId": operationID(method, path)}
		parameters := parametersOf(method, path, route.Query)
		if len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if route.Body != nil {
			operation["requestBody"] = object{
				"required": reflect.TypeOf(route.Body).Kind() != reflect.Pointer, "content": bodyOf(route.Body, content),
			}
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = operation
	}
	all := documents(t)
	maps.Copy(schemas, all.Definitions)
	all.Version, all.Definitions = "", nil
	schemas["Document"] = all
	out := object{
		"openapi":    "3.1.0",
		"info":       object{"title": "HTTP API of the hub", "version": "v1"},
		"paths":      paths,
		"components": object{"schemas": schemas},
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = json.Unmarshal(bytes.ReplaceAll(text, []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// operationID returns a unique name for generators of clients, such as postApplicationsNameRollback.
func operationID(method, path string) string {
	out := strings.ToLower(method)
	for _, word := range strings.FieldsFunc(strings.TrimPrefix(path, "/api/v1"), func(r rune) bool {
		return strings.ContainsRune("/{}", r)
	}) {
		out += strings.ToUpper(word[:1]) + word[1:]
	}
	return out
}

// parametersOf returns the parameters of a path.
func parametersOf(method, path string, of map[string]string) (out []object) {
	for _, match := range pathValue.FindAllStringSubmatch(path, -1) {
		s := enum[string]()
		if match[1] == "kind" {
			for _, kind := range document.Kinds() {
				s.Enum = append(s.Enum, strings.ToLower(string(kind))+"s")
			}
		}
		out = append(out, object{"in": "path", "name": match[1], "required": true, "schema": s})
	}
	query := maps.Collect(maps.All(of))
	if method == http.MethodGet {
		query["watch"] = "with the ETag of an earlier response in If-None-Match: wait until the response differs, at " +
			"most for this duration, for example 30s. The status is 304 if it does not"
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		out = append(out, object{
			"in": "query", "name": name, "description": query[name], "schema": object{"type": "string"},
		})
	}
	return out
}

// bodyOf returns the content of a request. Documents may also be YAML.
func bodyOf(body any, content func(any) object) object {
	out := content(body)
	switch body.(type) {
	case document.Document:
		out["application/yaml"] = out["application/json"]
	case []document.Document:
		out = object{"application/yaml": object{"schema": object{
			"type": "string", "description": "documents in YAML or JSON, separated by lines of three dashes",
		}}}
	}
	return out
}

// TestSamplesAreValid checks the samples, and that each names the schema for editors.
func TestSamplesAreValid(t *testing.T) {
	documents, err := schematest.New(schema.Documents)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte("# yaml-language-server: $schema=../schema/documents.json\n")) {
			t.Errorf("%s does not begin with the line for editors", file)
		}
		all, err := document.Decode(text, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if err := documents.Validate("", d.JSON); err != nil {
				t.Errorf("%s: %v", d.Where, err)
			}
		}
	}
}
