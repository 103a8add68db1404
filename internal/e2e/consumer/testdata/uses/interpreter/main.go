// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command use serves a handler to itself.
//
// Prints: 3 <nil>
package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
)

func main() {
	pools := interpreter.FromHandler(interpreter.HandlerFor[*unstructured.Unstructured]{
		Replica: func(_ context.Context, u *unstructured.Unstructured) (int32, *interpreter.ReplicaRequirements, error) {
			size, _, err := unstructured.NestedInt64(u.Object, "spec", "size")
			return int32(size), nil, err
		},
	})
	replicas, _, err := pools.Replicas(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Pool", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"size": int64(3)},
	}})
	fmt.Println(replicas, err)
}
