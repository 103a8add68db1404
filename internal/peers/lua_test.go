// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	karmada "github.com/karmada-io/karmada/pkg/util/interpreter"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// luaKinds is the number of kinds that Karmada interprets with Lua. luaCases is the number of cases
// in its tests of those kinds.
const luaKinds, luaCases = 27, 564

// luaCase is a case of Karmada's tests of customizations.
type luaCase struct {
	Name          string                              `json:"name"`
	DesiredObj    *unstructured.Unstructured          `json:"desiredObj"`
	ObservedObj   *unstructured.Unstructured          `json:"observedObj"`
	StatusItems   []workv1alpha2.AggregatedStatusItem `json:"statusItems"`
	InputReplicas int64                               `json:"inputReplicas"`
	Operation     string                              `json:"operation"`
	Output        map[string]any                      `json:"output"`
}

// TestKarmadaLua runs Karmada's customizations of third-party kinds, unchanged, with the cases of
// Karmada's own tests. It compares each answer with the expected answer, as Karmada does, and with
// the answer of Karmada's interpreter. No answer differs.
func TestKarmadaLua(t *testing.T) {
	root := filepath.Join(
		moduleDir(t, "github.com/karmada-io/karmada"),
		"pkg/resourceinterpreter/default/thirdparty/resourcecustomizations",
	)
	kinds, cases := 0, 0
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "customizations.yaml" {
			return err
		}
		kinds++
		cases += runLuaKind(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if kinds != luaKinds || cases != luaCases {
		t.Errorf("found %d kinds with %d cases, expected %d with %d", kinds, cases, luaKinds, luaCases)
	}
}

// moduleDir returns the folder of a module, and downloads the module if necessary.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	for _, arguments := range [][]string{{"list", "-m", "-f", "{{.Dir}}", module}, {"mod", "download", module},
		{"list", "-m", "-f", "{{.Dir}}", module}} {
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Stderr = os.Stderr
		out, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		if dir := strings.TrimSpace(string(out)); dir != "" {
			return dir
		}
	}
	t.Fatalf("module %s has no folder", module)
	return ""
}

func runLuaKind(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := lua.New(lua.Options{}, lua.File{Text: content})
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return 0
	}
	configs := decodeAll[*configv1alpha1.ResourceInterpreterCustomization](t, content)
	theirs := declarative.NewConfigurableInterpreter(nil)
	theirs.LoadConfig(configs)
	gvk := ours.Kinds()[0]
	for _, operation := range v1alpha1.InterpreterOperations() {
		if there, here := theirs.HookEnabled(gvk, configv1alpha1.InterpreterOperation(operation)),
			ours.Supports(gvk, operation); there != here {
			t.Errorf("%s: %s: Karmada has a script: %v, here: %v", gvk.Kind, operation, there, here)
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata", "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no cases: %v", path, err)
	}
	n := 0
	for _, file := range files {
		table, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases := decodeAll[luaCase](t, table)
		if len(cases) == 0 {
			t.Errorf("%s has no cases", file)
		}
		for i := range cases {
			n++
			t.Run(gvk.Kind+"/"+cases[i].Operation+"/"+cases[i].Name, func(t *testing.T) {
				runLuaCase(t, &cases[i], ours, theirs)
			})
		}
	}
	return n
}

func decodeAll[T any](t *testing.T, content []byte) []T {
	t.Helper()
	var all []T
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var one T
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

func runLuaCase(t *testing.T, c *luaCase, ours *lua.Interpreter, theirs *declarative.ConfigurableInterpreter) {
	t.Helper()
	rule := karmada.Rules(karmada.AllResourceInterpreterCustomizationRules).GetByOperation(c.Operation)
	if rule == nil {
		t.Fatalf("unknown operation %s", c.Operation)
	}
	// Some scripts write the time in seconds, so an answer may change between two calls.
	const attempts = 3
	var different []string
	for range attempts {
		there := rule.Run(
			theirs,
			karmada.RuleArgs{
				Replica:  c.InputReplicas,
				Desired:  c.DesiredObj.DeepCopy(),
				Observed: c.ObservedObj.DeepCopy(),
				Status:   c.StatusItems,
			},
		)
		here, err := askKarmadaCase(t, ours, interpreter.Operation(rule.Name()), c)
		if err != nil || there.Err != nil {
			if (err == nil) != (there.Err == nil) || len(c.Output) > 0 {
				t.Fatalf("Karmada: %v, here: %v", there.Err, err)
			}
			return
		}
		for name, expected := range c.Output {
			if value, ok := here[name]; !ok || !sameAnswer(t, expected, value) {
				t.Errorf("%s is %s, expected %s", name, text(value), text(expected))
			}
		}
		different = nil
		for _, result := range there.Results {
			if !sameAnswer(t, result.Value, here[result.Name]) {
				different = append(
					different,
					result.Name+"\nKarmada: "+text(result.Value)+"\nhere:    "+text(here[result.Name]),
				)
			}
		}
		if len(different) == 0 {
			return
		}
	}
	t.Errorf("answers differ: %s", strings.Join(different, "\n"))
}

// askKarmadaCase returns the answer with the names of Karmada's cases.
func askKarmadaCase(
	t *testing.T,
	ours interpreter.Interpreter,
	operation interpreter.Operation,
	c *luaCase,
) (map[string]any, error) {
	t.Helper()
	q := interpreter.Query{Operation: operation, Object: c.DesiredObj, Replicas: int32(c.InputReplicas)}
	if operation == v1alpha1.InterpreterOperationRetain {
		q.Observed = c.ObservedObj
	} else if q.Object == nil {
		q.Object = c.ObservedObj
	}
	if c.StatusItems != nil {
		q.Statuses = []interpreter.AggregatedStatusItem{} // scripts distinguish no list from an empty list
	}
	for _, item := range c.StatusItems {
		q.Statuses = append(q.Statuses, interpreter.AggregatedStatusItem{
			ClusterName: item.ClusterName, Status: item.Status, Applied: item.Applied, AppliedMessage: item.AppliedMessage,
			Health: v1alpha1.ResourceHealth(item.Health),
		})
	}
	answer, err := ours.Interpret(t.Context(), q)
	return map[string]any{
		"retained": answer.Object, "revised": answer.Object, "aggregatedStatus": answer.Object,
		"replica": answer.Replicas, "requires": answer.Requirements, "components": answer.Components,
		"status": answer.Status, "healthy": answer.Healthy, "dependencies": answer.Dependencies,
	}, err
}

// sameAnswer compares an answer with the expected answer, as Karmada does: by the type of the
// answer, lists in any order, quantities by value, and without excluded members.
func sameAnswer(t *testing.T, expected, answer any) bool {
	t.Helper()
	switch answer := answer.(type) {
	case *interpreter.ReplicaRequirements:
		return equal(converted[*interpreter.ReplicaRequirements](t, expected), answer)
	case []interpreter.DependentObjectReference:
		want, got := converted[[]interpreter.DependentObjectReference](t, expected), slices.Clone(answer)
		sortByText(want)
		sortByText(got)
		return equal(want, got)
	case []interpreter.Component:
		want, got := converted[[]interpreter.Component](t, expected), slices.Clone(answer)
		byName := func(a, b interpreter.Component) int { return strings.Compare(a.Name, b.Name) }
		slices.SortFunc(want, byName)
		slices.SortFunc(got, byName)
		return equal(want, got)
	case *unstructured.Unstructured:
		want := converted[map[string]any](t, expected)
		excluded := map[string]bool{}
		return equal(without(want, "", excluded, true), without(converted[map[string]any](t, answer), "", excluded, false))
	}
	return text(expected) == text(answer)
}

func sortByText[T any](list []T) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(text(a), text(b)) })
}

var equalities = conversion.EqualitiesOrDie(func(a, b resource.Quantity) bool { return a.Equal(b) })

func equal(a, b any) bool { return equalities.DeepEqual(a, b) }

func converted[T any](t *testing.T, value any) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text(value)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// without returns a value without the excluded members. If collecting is true, it also excludes and
// records the members with the placeholder.
func without(value any, path string, excluded map[string]bool, collecting bool) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range value {
			at := path + "." + name
			if collecting && member == "{{EXCLUDE}}" {
				excluded[at] = true
			}
			if !excluded[at] {
				out[name] = without(member, at, excluded, collecting)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = without(value[i], path+"."+strconv.Itoa(i), excluded, collecting)
		}
		return out
	}
	return value
}
