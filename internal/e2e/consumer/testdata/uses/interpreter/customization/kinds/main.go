// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads the health of a Volcano Job.
//
// Prints: true <nil>
package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
)

func main() {
	healthy, err := kinds.New().Health(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": map[string]any{"name": "train"},
		"status": map[string]any{"state": map[string]any{"phase": "Running"}},
	}})
	fmt.Println(healthy, err)
}
