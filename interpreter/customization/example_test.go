// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/customization"
)

const rollouts = `
apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: rollouts}
spec:
  targets: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout}]
  replicas: object.spec.?replicas.orValue(1)
  requirements: podRequirements(object.spec.template)
  revise: "{'spec': {'replicas': replicas}}"
  health: object.?status.phase.orValue('') == 'Healthy'
`

func ExampleNew() {
	answers, err := customization.New(customization.File{Name: "rollouts.yaml", Text: []byte(rollouts)})
	if err != nil {
		fmt.Println(err)
		return
	}
	rollout := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
		"metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec":     map[string]any{"replicas": int64(2), "paused": true},
		"status":   map[string]any{"phase": "Degraded"},
	}}
	healthy, err := answers.Health(context.Background(), rollout)
	fmt.Println("healthy:", healthy, err)
	revised, err := answers.Revise(context.Background(), rollout, 5)
	fmt.Println(revised.Object["spec"], err)
	_, _, err = answers.Replicas(context.Background(), rollout)
	fmt.Println(err)
	// Output:
	// healthy: false <nil>
	// map[paused:true replicas:5] <nil>
	// rollouts.yaml:8:44: InterpreterCustomization rollouts: spec.requirements: InterpretReplica of Rollout shop/web: no such key: template: write ?template for a field that may be missing
}

// Set loads customizations, and returns a mistake with its position.
func ExampleInterpreter_Set() {
	answers, err := customization.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = answers.Set(customization.File{Name: "rollouts.yaml",
		Text: []byte(rollouts + "  prune: \"{'spec': objekt}\"\n")})
	fmt.Println(err)
	// Output:
	// rollouts.yaml:11:20: InterpreterCustomization rollouts: spec.prune: unknown variable "objekt": the variable is object
}
