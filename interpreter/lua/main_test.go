// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// document returns a file with a customization for the kind Thing. scripts are pairs of a field and
// its script.
func document(name string, scripts ...string) lua.File {
	var s strings.Builder
	fmt.Fprintf(
		&s,
		"apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: %s}\n",
		name,
	)
	s.WriteString("spec:\n  target: {apiVersion: example.io/v1, kind: Thing}\n  customizations:\n")
	for i := 0; i < len(scripts); i += 2 {
		fmt.Fprintf(&s, "    %s:\n      luaScript: |2\n", scripts[i])
		for line := range strings.Lines(scripts[i+1]) {
			s.WriteString("        " + line)
		}
		s.WriteString("\n")
	}
	return lua.File{Name: name + ".yaml", Text: []byte(s.String())}
}

// load returns an interpreter with one customization.
func load(t testing.TB, scripts ...string) *lua.Interpreter {
	t.Helper()
	i, err := lua.New(lua.Options{}, document("things", scripts...))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// thing returns an object of the kind Thing with additional fields in JSON.
func thing(t testing.TB, fields string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if fields != "" {
		fields = "," + fields
	}
	if err := u.UnmarshalJSON(
		[]byte(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":"a","namespace":"prod"}` + fields +
			`}`)); err != nil {
		t.Fatal(err)
	}
	return u
}

// evaluate returns the status that a chunk returns, as JSON.
func evaluate(t testing.TB, chunk string, object *unstructured.Unstructured) (string, error) {
	t.Helper()
	i, err := lua.New(
		lua.Options{},
		document("things", "statusReflection", "function ReflectStatus(object)\n"+chunk+"\nend"),
	)
	if err != nil {
		return "", err
	}
	status, err := i.Status(t.Context(), object)
	if err != nil {
		return "", err
	}
	return string(status.Raw), nil
}
