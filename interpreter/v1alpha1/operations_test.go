// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestOperationNamesOfBothProtocols checks the names of the operations in both protocols against the contract.
func TestOperationNamesOfBothProtocols(t *testing.T) {
	for interpret, explore := range map[v1alpha1.InterpreterOperation]v1alpha1.OperationType{
		"InterpretReplica": "ExploreReplica", "InterpretStatus": "ExploreStatus", "Prune": "ExplorePacking",
		"ReviseReplica": "ExploreReplicaRevising",
		"Retain":        "ExploreRetaining", "AggregateStatus": "ExploreStatusAggregating",
		"InterpretHealth":     "ExploreHealthy",
		"InterpretDependency": "ExploreDependencies", "*": "*",
	} {
		if got, ok := interpret.Explore(); got != explore || !ok {
			t.Errorf("%s is %s", interpret, got)
		}
		if got, ok := explore.Interpreter(); got != interpret || !ok {
			t.Errorf("%s is %s", explore, got)
		}
	}
	if got, ok := v1alpha1.InterpreterOperationInterpretComponent.Explore(); ok {
		t.Errorf("InterpretComponent is %s", got)
	}
	for _, name := range []v1alpha1.OperationType{"", "Guess", "Prune"} {
		if got, ok := name.Interpreter(); ok {
			t.Errorf("%q is %s", name, got)
		}
	}
	if v1alpha1.InterpreterOperationAll.Known() || !v1alpha1.InterpreterOperationPrune.Known() ||
		len(v1alpha1.InterpreterOperations()) != 9 {
		t.Error("* is for rules, and there are nine others")
	}
}
