// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// OperationType is an operation of the Explore protocol.
// +kubebuilder:validation:Enum=ExploreReplica;ExploreStatus;ExplorePacking;ExploreReplicaRevising;ExploreRetaining;ExploreStatusAggregating;ExploreHealthy;ExploreDependencies;"*"
type OperationType string

// The operations of the Explore protocol, with their names in the Interpret protocol.
const (
	ExploreReplica           OperationType = "ExploreReplica"           // InterpretReplica
	ExploreStatus            OperationType = "ExploreStatus"            // InterpretStatus
	ExplorePacking           OperationType = "ExplorePacking"           // Prune
	ExploreReplicaRevising   OperationType = "ExploreReplicaRevising"   // ReviseReplica
	ExploreRetaining         OperationType = "ExploreRetaining"         // Retain
	ExploreStatusAggregating OperationType = "ExploreStatusAggregating" // AggregateStatus
	ExploreHealthy           OperationType = "ExploreHealthy"           // InterpretHealth
	ExploreDependencies      OperationType = "ExploreDependencies"      // InterpretDependency
	ExploreAll               OperationType = "*"                        // all operations, in a rule only
)

// InterpreterOperation is an operation of the Interpret protocol. The other packages of the module
// use its names for both protocols.
// +kubebuilder:validation:Enum=InterpretReplica;InterpretComponent;ReviseReplica;Retain;AggregateStatus;InterpretDependency;InterpretStatus;InterpretHealth;Prune;"*"
type InterpreterOperation string

// The operations of the Interpret protocol.
const (
	// InterpreterOperationInterpretReplica requests the number of replicas that an object declares,
	// and the requirements of each replica.
	InterpreterOperationInterpretReplica InterpreterOperation = "InterpretReplica"
	// InterpreterOperationInterpretComponent requests the number of replicas and their requirements
	// for each part of an object with several pod templates. Explore has no such operation.
	InterpreterOperationInterpretComponent InterpreterOperation = "InterpretComponent"
	// InterpreterOperationReviseReplica requests the object with another number of replicas.
	InterpreterOperationReviseReplica InterpreterOperation = "ReviseReplica"
	// InterpreterOperationRetain requests the desired object with the fields that controllers of the
	// cluster have set in the observed object.
	InterpreterOperationRetain InterpreterOperation = "Retain"
	// InterpreterOperationAggregateStatus requests the object with a status that combines the statuses
	// of the clusters.
	InterpreterOperationAggregateStatus InterpreterOperation = "AggregateStatus"
	// InterpreterOperationInterpretDependency requests the objects that an object needs on each of its
	// clusters.
	InterpreterOperationInterpretDependency InterpreterOperation = "InterpretDependency"
	// InterpreterOperationInterpretStatus requests the status of an object.
	InterpreterOperationInterpretStatus InterpreterOperation = "InterpretStatus"
	// InterpreterOperationInterpretHealth requests whether an object is healthy.
	InterpreterOperationInterpretHealth InterpreterOperation = "InterpretHealth"
	// InterpreterOperationPrune requests the object without the parts that must not be sent to a
	// cluster.
	InterpreterOperationPrune InterpreterOperation = "Prune"
	// InterpreterOperationAll stands for all operations in a rule. It is never in a request.
	InterpreterOperationAll InterpreterOperation = "*"
)

// operations are all operations of requests, by their names in both protocols.
var operations = []struct {
	interpret InterpreterOperation
	explore   OperationType // empty if Explore does not have it
}{
	{InterpreterOperationInterpretReplica, ExploreReplica},
	{InterpreterOperationInterpretComponent, ""},
	{InterpreterOperationReviseReplica, ExploreReplicaRevising},
	{InterpreterOperationRetain, ExploreRetaining},
	{InterpreterOperationAggregateStatus, ExploreStatusAggregating},
	{InterpreterOperationInterpretDependency, ExploreDependencies},
	{InterpreterOperationInterpretStatus, ExploreStatus},
	{InterpreterOperationInterpretHealth, ExploreHealthy},
	{InterpreterOperationPrune, ExplorePacking},
}

// InterpreterOperations returns the operations that a request can have, without
// [InterpreterOperationAll].
func InterpreterOperations() []InterpreterOperation {
	out := make([]InterpreterOperation, len(operations))
	for i, o := range operations {
		out[i] = o.interpret
	}
	return out
}

// Interpreter returns the operation's name in the Interpret protocol. It returns false if the
// operation is not one of the constants.
func (o OperationType) Interpreter() (InterpreterOperation, bool) {
	if o == ExploreAll {
		return InterpreterOperationAll, true
	}
	for _, known := range operations {
		if known.explore == o && o != "" {
			return known.interpret, true
		}
	}
	return "", false
}

// Explore returns the operation's name in the Explore protocol. It returns false if Explore does
// not have the operation, as for [InterpreterOperationInterpretComponent].
func (o InterpreterOperation) Explore() (OperationType, bool) {
	if o == InterpreterOperationAll {
		return ExploreAll, true
	}
	for _, known := range operations {
		if known.interpret == o {
			return known.explore, known.explore != ""
		}
	}
	return "", false
}

// Known reports whether a request can have this operation. [InterpreterOperationAll] is for rules
// only.
func (o InterpreterOperation) Known() bool {
	for _, known := range operations {
		if known.interpret == o {
			return true
		}
	}
	return false
}
