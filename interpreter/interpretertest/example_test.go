// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"context"
	"fmt"

	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// In a test, RunFile reads cases from YAML and runs each as a subtest.
func ExampleCheck() {
	difference := interpretertest.Check(context.Background(), native.New(), interpretertest.Case{
		Name:      "replicas",
		Operation: v1alpha1.InterpretReplica,
		Object:    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}},
		Want:      interpretertest.Want{Replicas: new(int32(1))},
	})
	fmt.Printf("%q\n", difference)
	// Output: ""
}
