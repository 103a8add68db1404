// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use reads the replicas of a Deployment.
//
// Prints: 2 <nil>
package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/native"
)

func main() {
	replicas, _, err := native.New().Replicas(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"replicas": int64(2)},
	}})
	fmt.Println(replicas, err)
}
