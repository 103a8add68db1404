// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Check runs one case outside of tests. In a test, use RunFile.
func ExampleCheck() {
	difference := interpretertest.Check(context.Background(), native.New(), interpretertest.Case{
		Name:      "replicas",
		Operation: v1alpha1.InterpreterOperationInterpretReplica,
		Object:    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}},
		Want:      interpretertest.Want{Replicas: new(int32(1))},
	})
	fmt.Printf("%q\n", difference)
	// Output: ""
}

// Cases are written in YAML, one case in each document. RunFile loads and runs them in a test.
func ExampleLoad() {
	folder, err := os.MkdirTemp("", "cases")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }() // the system deletes remaining files
	file := filepath.Join(folder, "cases.yaml")
	err = os.WriteFile(file, []byte(`
name: a Deployment without replicas has one
operation: InterpretReplica
object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
want: {replicas: 1, requirements: {}}
---
name: another number
operation: ReviseReplica
replicas: 3
object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
want: {object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}}
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	cases, err := interpretertest.Load(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range cases {
		fmt.Printf("%s: %q\n", c.Name, interpretertest.Check(context.Background(), native.New(), c))
	}
	// Output:
	// a Deployment without replicas has one: ""
	// another number: ""
}

// Bad answers are HTTP handlers, for tests of other callers. CheckCaller sends each bad answer to a
// caller.
func ExampleBadAnswers() {
	for _, bad := range interpretertest.BadAnswers()[:3] {
		fmt.Println(bad.Name)
	}
	// Output:
	// no response
	// wrong UID
	// missing replicas
}
