// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative"
	karmada "github.com/karmada-io/karmada/pkg/util/interpreter"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// kindsRun compares package kinds with Karmada.
type kindsRun struct {
	ours         *kinds.Interpreter
	theirs       *declarative.ConfigurableInterpreter // for the current kind
	kinds, cases int
	differs      map[string]bool // the cases in kindsDifferences, and whether each case differed
}

// TestKarmadaKinds sends the requests of Karmada's tests of third-party kinds to package kinds.
// Each answer must be the answer that Karmada expects. kindsDifferences lists the other answers,
// with reasons.
func TestKarmadaKinds(t *testing.T) {
	klog.LogToStderr(false) // Karmada logs each error
	klog.SetOutput(io.Discard)
	t.Cleanup(func() { klog.LogToStderr(true) })
	run := &kindsRun{ours: kinds.New(), differs: map[string]bool{}}
	for _, d := range kindsDifferences {
		for _, name := range d.cases {
			run.differs[name] = false
		}
	}
	root := filepath.Join(
		moduleDir(t, "github.com/karmada-io/karmada"),
		"pkg/resourceinterpreter/default/thirdparty/resourcecustomizations",
	)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "customizations.yaml" {
			run.kind(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if run.kinds != luaKinds || run.cases != luaCases {
		t.Errorf("found %d kinds with %d cases, expected %d with %d", run.kinds, run.cases, luaKinds, luaCases)
	}
	for name, differs := range run.differs {
		if !differs {
			t.Errorf("%s does not differ: remove it from kindsDifferences", name)
		}
	}
}

// differ reports whether a difference is known, and records that it occurred.
func (k *kindsRun) differ(name string) bool {
	_, known := k.differs[name]
	if known {
		k.differs[name] = true
	}
	return known
}

// kind runs the cases for the kind of one of Karmada's customizations.
func (k *kindsRun) kind(t *testing.T, path string) {
	t.Helper()
	k.kinds++
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	configs := decodeAll[*configv1alpha1.ResourceInterpreterCustomization](t, content)
	k.theirs = declarative.NewConfigurableInterpreter(nil)
	k.theirs.LoadConfig(configs)
	target := configs[0].Spec.Target
	gvk := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
	for _, operation := range v1alpha1.InterpreterOperations() {
		there, here := k.theirs.HookEnabled(
			gvk,
			configv1alpha1.InterpreterOperation(operation),
		), k.ours.Supports(
			gvk,
			operation,
		)
		if name := gvk.Kind + "/" + string(operation); there && !here && !k.differ(name) {
			t.Errorf("%s: only Karmada answers", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata", "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no cases: %v", path, err)
	}
	for _, file := range files {
		table, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases := decodeAll[luaCase](t, table)
		for i := range cases {
			k.cases++
			name := gvk.Kind + "/" + cases[i].Operation + "/" + cases[i].Name
			t.Run(name, func(t *testing.T) {
				if found := k.differing(t, &cases[i]); len(found) > 0 && !k.differ(name) {
					t.Errorf("%s: answers differ: %s", name, strings.Join(found, "\n"))
				}
			})
		}
	}
}

// differing returns the answers that differ.
func (k *kindsRun) differing(t *testing.T, c *luaCase) []string {
	t.Helper()
	rule := karmada.Rules(karmada.AllResourceInterpreterCustomizationRules).GetByOperation(c.Operation)
	if rule == nil {
		t.Fatalf("unknown operation %s", c.Operation)
	}
	there := rule.Run(
		k.theirs,
		karmada.RuleArgs{
			Replica:  c.InputReplicas,
			Desired:  c.DesiredObj.DeepCopy(),
			Observed: c.ObservedObj.DeepCopy(),
			Status:   c.StatusItems,
		},
	)
	here, err := askKarmadaCase(t, k.ours, interpreter.Operation(rule.Name()), c)
	if err != nil || there.Err != nil {
		if (err == nil) != (there.Err == nil) {
			t.Errorf("Karmada: %v, here: %v", there.Err, err)
		}
		return nil
	}
	var found []string
	for _, result := range there.Results {
		expected, ok := c.Output[result.Name]
		if !ok {
			expected = result.Value
		}
		if !k.same(t, c, result.Name, expected, here[result.Name]) {
			found = append(found, result.Name+"\nKarmada: "+text(expected)+"\nhere:    "+text(here[result.Name]))
		}
	}
	return found
}

// same compares an answer with the expected answer, except for its form.
func (k *kindsRun) same(t *testing.T, c *luaCase, name string, expected, answer any) bool {
	t.Helper()
	object := c.DesiredObj
	if object == nil {
		object = c.ObservedObj
	}
	if object.GetKind() == "FlinkDeployment" && (name == "requires" || name == "components") {
		if memory := inMebibytes(text(expected)); memory != text(expected) && k.differ(memoryOfFlink) {
			expected = json.RawMessage(memory)
		}
	}
	switch name {
	case "aggregatedStatus":
		want, got, object := converted[map[string]any](
			t,
			expected,
		), converted[map[string]any](
			t,
			answer,
		), converted[map[string]any](
			t,
			c.DesiredObj,
		)
		status, aggregated := want["status"], got["status"]
		delete(want, "status")
		delete(got, "status")
		delete(object, "status")
		if !equal(got, object) {
			return false
		}
		if !equal(want, object) && !k.differ(formOfObjects) {
			return false
		}
		return k.sameStatus(status, aggregated)
	case "status":
		return k.sameStatus(converted[any](t, expected), converted[any](t, answer))
	case "requires":
		want, got := converted[interpreter.ReplicaRequirements](
			t,
			expected,
		), converted[interpreter.ReplicaRequirements](
			t,
			answer,
		)
		if got.Namespace != object.GetNamespace() && text(answer) != "null" {
			return false
		}
		if got.Namespace != want.Namespace && k.differ(formOfRequirements) {
			want.Namespace = got.Namespace
		}
		return equal(want, got)
	}
	return sameAnswer(t, expected, answer)
}

// inMebibytes converts the memory of Flink in JSON to mebibytes, as Flink reads it.
func inMebibytes(requirements string) string {
	return regexp.MustCompile(`"memory":"(\d+)m"`).ReplaceAllString(requirements, `"memory":"${1}Mi"`)
}

func (k *kindsRun) sameStatus(expected, answer any) bool {
	excluded := map[string]bool{}
	want, got := without(expected, "", excluded, true), without(answer, "", excluded, false)
	if equal(want, got) {
		return true
	}
	return equal(reported(want), reported(got)) && k.differ(formOfStatuses)
}

// reported removes empty texts, lists and objects from the objects in a value. It returns nil for
// an empty value.
func reported(value any) any {
	switch value := value.(type) {
	case string:
		if value == "" {
			return nil
		}
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = reported(value[i])
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, member := range value {
			if member := reported(member); member != nil {
				out[name] = member
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return value
}
