// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads the replicas of a kind that a customization describes.
//
// Prints: 2 <nil>
package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/customization"
)

const text = `
apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: rollouts}
spec:
  targets: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout}]
  replicas: object.spec.?replicas.orValue(1)
`

func main() {
	kinds, err := customization.New(customization.File{Name: "rollouts.yaml", Text: []byte(text)})
	if err != nil {
		panic(err)
	}
	replicas, _, err := kinds.Replicas(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"replicas": int64(2)},
	}})
	fmt.Println(replicas, err)
}
