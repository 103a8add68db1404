// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

func ExampleNew() {
	interpreter, err := lua.New(lua.Options{}, lua.File{Name: "rollouts.yaml", Text: []byte(`
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: rollouts}
spec:
  target: {apiVersion: argoproj.io/v1alpha1, kind: Rollout}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(object)
          return object.status ~= nil and object.status.phase == "Healthy"
        end
`)})
	if err != nil {
		log.Fatal(err)
	}
	rollout := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "status": map[string]any{"phase": "Healthy"},
	}}
	healthy, err := interpreter.Health(context.Background(), rollout)
	fmt.Println(healthy, err)
	// Output: true <nil>
}
