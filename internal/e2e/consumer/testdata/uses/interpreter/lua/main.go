// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads the health of a Rollout with a customization.
//
// Prints: true <nil>
package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

const customization = `
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: rollouts}
spec:
  target: {apiVersion: argoproj.io/v1alpha1, kind: Rollout}
  customizations:
    healthInterpretation:
      luaScript: function InterpretHealth(object) return object.status.phase == "Healthy" end
`

func main() {
	interpreter, err := lua.New(lua.Options{}, lua.File{Text: []byte(customization)})
	if err != nil {
		fmt.Println(err)
		return
	}
	healthy, err := interpreter.Health(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "status": map[string]any{"phase": "Healthy"},
	}})
	fmt.Println(healthy, err)
}
