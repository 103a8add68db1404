// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	theirs "github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native/prune"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	ours "github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// nativeCase is one request to Karmada and to package native.
type nativeCase struct {
	Name      string
	Operation interpreter.Operation
	// Kinds are the kinds that are requested one by one with the same object. Defaults to the kind
	// of the object.
	Kinds    []string
	Object   map[string]any
	Observed map[string]any
	Statuses []interpreter.AggregatedStatusItem
	Replicas int32
	// Exact compares objects with the fields that their Go types do not have. Otherwise only fields
	// of the Go types are compared.
	Exact bool
	// Fails expects an error from both.
	Fails bool
	// Differs maps each path at which the answers differ to the name of the difference, as in
	// differences.
	Differs map[string]string
}

// TestKarmadaNative sends the same requests to Karmada's interpreter of built-in kinds and to
// package native. It fails if an answer differs in a way that its case does not name. It also fails
// if a difference in a case or in differences no longer occurs.
func TestKarmadaNative(t *testing.T) {
	klog.LogToStderr(false) // Karmada logs each object that it refuses
	klog.SetOutput(io.Discard)
	t.Cleanup(func() { klog.LogToStderr(true) })
	used := map[string]bool{}
	for _, c := range nativeCases(t) {
		for _, kind := range c.Kinds {
			t.Run(fmt.Sprintf("%s/%s/%s", c.Operation, c.Name, kind), func(t *testing.T) {
				q := c.query(t, kind)
				there := normalized(t, &c, kind, func() (any, error) { return askKarmada(q) })
				here := normalized(t, &c, kind, func() (any, error) { return askNative(t, q) })
				if failed := reflect.DeepEqual(here, failure) && reflect.DeepEqual(there, failure); failed != c.Fails {
					t.Errorf("both fail: %v", failed)
				}
				paths := differing(there, here, "")
				if want := slices.Sorted(maps.Keys(c.Differs)); !slices.Equal(paths, want) {
					t.Errorf("answers differ at %q, want %q\nKarmada: %s\nhere:    %s", paths, want, text(there), text(here))
				}
			})
		}
		for path, name := range c.Differs {
			if used[name] = true; !listed(name) {
				t.Errorf("%s: %s: no difference is called %q", c.Name, path, name)
			}
		}
	}
	for _, d := range differences {
		if !used[d.name] {
			t.Errorf("no case shows the difference %q", d.name)
		}
	}
}

// nativeCases reads the cases in testdata.
func nativeCases(t *testing.T) []nativeCase {
	t.Helper()
	files, err := filepath.Glob("testdata/native-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var cases []nativeCase
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			var c nativeCase
			if err := yaml.UnmarshalStrict([]byte(document), &c); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if len(c.Kinds) == 0 {
				c.Kinds = []string{c.Object["kind"].(string)}
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// query returns the request for one kind.
func (c *nativeCase) query(t *testing.T, kind string) interpreter.Query {
	t.Helper()
	q := interpreter.Query{Operation: c.Operation, Statuses: c.Statuses, Replicas: c.Replicas}
	q.Object = nativeObject(t, c.Object, kind)
	if c.Observed != nil {
		q.Observed = nativeObject(t, c.Observed, kind)
	}
	return q
}

// nativeObject returns an object of a kind. Its name is o unless content has a name.
func nativeObject(t *testing.T, content map[string]any, kind string) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetKind(kind)
	if u.GetAPIVersion() == "" {
		u.SetAPIVersion(kindOf(t, kind).GroupVersion().String())
	}
	if u.GetName() == "" {
		u.SetName("o")
	}
	if raw, err = json.Marshal(u.Object); err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil { // converts numbers to integers
		t.Fatal(err)
	}
	return u
}

func kindOf(t *testing.T, kind string) schema.GroupVersionKind {
	t.Helper()
	for _, gvk := range ours.New().Kinds() {
		if gvk.Kind == kind {
			return gvk
		}
	}
	t.Fatalf("package native has no kind %s: the case must name its apiVersion", kind)
	return schema.GroupVersionKind{}
}

// askKarmada returns Karmada's answer. Karmada's functions change their arguments.
func askKarmada(q interpreter.Query) (answer any, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = map[string]any{"error": "panic"}, nil
		}
	}()
	karmada, object := theirs.NewDefaultInterpreter(), q.Object.DeepCopy()
	switch q.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		replicas, requirements, err := karmada.GetReplicas(object)
		return map[string]any{"replicas": replicas, "requirements": requirements}, err
	case v1alpha1.InterpreterOperationReviseReplica:
		return karmada.ReviseReplica(object, int64(q.Replicas))
	case v1alpha1.InterpreterOperationRetain:
		return karmada.Retain(object, q.Observed.DeepCopy())
	case v1alpha1.InterpreterOperationAggregateStatus:
		var items []workv1alpha2.AggregatedStatusItem
		for _, item := range q.Statuses {
			items = append(items, workv1alpha2.AggregatedStatusItem{ClusterName: item.ClusterName, Status: item.Status})
		}
		return karmada.AggregateStatus(object, items)
	case v1alpha1.InterpreterOperationInterpretDependency:
		dependencies, err := karmada.GetDependencies(object)
		return map[string]any{"dependencies": dependencies}, err
	case v1alpha1.InterpreterOperationInterpretStatus:
		status, err := karmada.ReflectStatus(object)
		return map[string]any{"status": status}, err
	case v1alpha1.InterpreterOperationInterpretHealth:
		healthy, err := karmada.InterpretHealth(object)
		return map[string]any{"healthy": healthy}, err
	case v1alpha1.InterpreterOperationPrune:
		// As Karmada prunes the objects that it sends to clusters.
		return object, prune.RemoveIrrelevantFields(object, prune.RemoveJobTTLSeconds)
	}
	return nil, fmt.Errorf("unknown operation %s", q.Operation)
}

func askNative(t *testing.T, q interpreter.Query) (any, error) {
	t.Helper()
	before := q.Object.DeepCopy()
	answer, err := ours.New().Interpret(t.Context(), q)
	if !reflect.DeepEqual(before, q.Object) {
		t.Error("package native has changed its argument")
	}
	switch q.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		return map[string]any{"replicas": answer.Replicas, "requirements": answer.Requirements}, err
	case v1alpha1.InterpreterOperationInterpretDependency:
		return map[string]any{"dependencies": answer.Dependencies}, err
	case v1alpha1.InterpreterOperationInterpretStatus:
		return map[string]any{"status": answer.Status}, err
	case v1alpha1.InterpreterOperationInterpretHealth:
		return map[string]any{"healthy": answer.Healthy}, err
	}
	return answer.Object, err
}

// failure is the answer that represents all errors.
var failure any = map[string]any{"error": "error"}

// normalized returns an answer as decoded JSON without empty values. For the API server, null, {}
// and [] mean the same as a missing field. Dependencies are sorted, because Karmada returns them in
// random order.
func normalized(t *testing.T, c *nativeCase, kind string, ask func() (any, error)) any {
	t.Helper()
	answer, err := ask()
	if err != nil {
		return failure
	}
	if u, ok := answer.(*unstructured.Unstructured); ok && !c.Exact {
		known, err := scheme.Scheme.New(kindOf(t, kind))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text(u.Object)), known); err != nil {
			t.Fatal(err)
		}
		answer = known
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(text(answer)), &tree); err != nil {
		t.Fatal(err)
	}
	if requirements, ok := tree["requirements"].(map[string]any); ok {
		requests, _ := requirements["resourceRequest"].(map[string]any)
		for name, q := range requests {
			quantity := resource.MustParse(q.(string))
			requests[name] = quantity.AsApproximateFloat64()
		}
	}
	if dependencies, ok := tree["dependencies"].([]any); ok {
		slices.SortFunc(dependencies, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	}
	return withoutEmpty(tree)
}

func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if value[name] = withoutEmpty(member); value[name] == nil {
				delete(value, name)
			}
		}
		if len(value) == 0 {
			return nil
		}
	case []any:
		for i := range value {
			value[i] = withoutEmpty(value[i])
		}
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

// differing returns the sorted paths at which two answers differ. A list counts as one value, and
// an error as another answer.
func differing(there, here any, path string) []string {
	if reflect.DeepEqual(there, here) {
		return nil
	}
	a, isObject := there.(map[string]any)
	b, both := here.(map[string]any)
	if !(isObject || there == nil) || !(both || here == nil) || !isObject && !both {
		return []string{strings.TrimPrefix(path, ".")}
	}
	if path == "" && a["error"] != b["error"] {
		return []string{"error"}
	}
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		paths = append(paths, differing(a[name], b[name], path+"."+name)...)
	}
	return slices.Sorted(slices.Values(paths))
}

// text returns JSON. All values in answers can be encoded.
func text(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// TestKarmadaNativeKinds compares the supported kinds and operations.
func TestKarmadaNativeKinds(t *testing.T) {
	karmada, native := theirs.NewDefaultInterpreter(), ours.New()
	kinds := []schema.GroupVersionKind{{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceImport"}}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kinds = append(kinds, gvk)
	}
	here, there := map[string][]string{}, map[string][]string{}
	for _, operation := range v1alpha1.InterpreterOperations() {
		if operation == v1alpha1.InterpreterOperationInterpretStatus || operation == v1alpha1.InterpreterOperationPrune {
			continue // Karmada accepts any kind for these operations
		}
		for _, gvk := range kinds {
			theirs := karmada.HookEnabled(gvk, configv1alpha1.InterpreterOperation(operation))
			switch {
			case native.Supports(gvk, operation) && !theirs:
				here[string(operation)] = append(here[string(operation)], gvk.Kind)
			case theirs && !native.Supports(gvk, operation):
				there[string(operation)] = append(there[string(operation)], gvk.Kind)
			}
		}
		slices.Sort(here[string(operation)])
	}
	if got, want := text(here), text(onlyHere); got != want {
		t.Errorf("only package native answers\n%s, want\n%s", got, want)
	}
	if got, want := text(there), text(onlyKarmada); got != want {
		t.Errorf("only Karmada answers\n%s, want\n%s", got, want)
	}
}

// TestKarmadaPage compares the page for users with differences.
func TestKarmadaPage(t *testing.T) {
	content, err := os.ReadFile("../../interpreter/native/KARMADA.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	for _, d := range differences {
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", d.name, d.karmada, d.here, d.right))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows of KARMADA.md must be\n%s", strings.Join(want, "\n"))
	}
	for operation, kinds := range onlyHere {
		if line := fmt.Sprintf("- %s: %s\n", operation, strings.Join(kinds, ", ")); !strings.Contains(string(content), line) {
			t.Errorf("KARMADA.md lacks %q", line)
		}
	}
}
