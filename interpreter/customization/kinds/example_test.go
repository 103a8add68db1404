// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
)

func ExampleNew() {
	cloneSet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec":     map[string]any{"replicas": int64(3), "template": map[string]any{}},
	}}
	replicas, _, err := kinds.New().Replicas(context.Background(), cloneSet)
	fmt.Println(replicas, err)
	// Output: 3 <nil>
}
