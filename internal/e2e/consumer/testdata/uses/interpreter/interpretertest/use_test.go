// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package use_test has a webhook checked.
package use_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

func TestUse(t *testing.T) {
	interpretertest.Run(t, native.New(), interpretertest.Case{
		Name: "replicas", Reason: "the number that is asked for", Operation: v1alpha1.InterpreterOperationInterpretReplica,
		Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"replicas": int64(2)},
		},
		Want: interpretertest.Want{Replicas: ptr.To[int32](2)},
	})
}
