// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// OperationType is an operation of the Explore protocol.
// +kubebuilder:validation:Enum=ExploreReplica;ExploreStatus;ExplorePacking;ExploreReplicaRevising;ExploreRetaining;ExploreStatusAggregating;ExploreHealthy;ExploreDependencies;"*"
type OperationType string

// The operations of the Explore protocol.
const (
	// ExploreReplica asks for the replicas that an object declares, and for what each of them requires.
	ExploreReplica OperationType = "ExploreReplica"
	// ExploreStatus asks for the status of an object that does not keep it in .status.
	ExploreStatus OperationType = "ExploreStatus"
	// ExplorePacking asks for the object as it is packed for a cluster.
	ExplorePacking OperationType = "ExplorePacking"
	// ExploreReplicaRevising asks for the object with another number of replicas.
	ExploreReplicaRevising OperationType = "ExploreReplicaRevising"
	// ExploreRetaining asks for the desired object with what controllers of the cluster have set in the observed one.
	ExploreRetaining OperationType = "ExploreRetaining"
	// ExploreStatusAggregating asks for the object with one status made of those of the clusters.
	ExploreStatusAggregating OperationType = "ExploreStatusAggregating"
	// ExploreHealthy asks whether an object is healthy.
	ExploreHealthy OperationType = "ExploreHealthy"
	// ExploreDependencies asks for the objects that must go where an object goes.
	ExploreDependencies OperationType = "ExploreDependencies"
	// ExploreAll stands for all operations in a rule. No request has it.
	ExploreAll OperationType = "*"
)

// InterpreterOperation is an operation of the Interpret protocol. The packages above this one use its names for both.
// +kubebuilder:validation:Enum=InterpretReplica;InterpretComponent;ReviseReplica;Retain;AggregateStatus;InterpretDependency;InterpretStatus;InterpretHealth;Prune;"*"
type InterpreterOperation string

// The operations of the Interpret protocol.
const (
	// InterpretReplica asks for the replicas that an object declares, and for what each of them requires.
	InterpretReplica InterpreterOperation = "InterpretReplica"
	// InterpretComponent asks the same of an object with several pod templates. Explore has no such operation.
	InterpretComponent InterpreterOperation = "InterpretComponent"
	// ReviseReplica asks for the object with another number of replicas.
	ReviseReplica InterpreterOperation = "ReviseReplica"
	// Retain asks for the desired object with what controllers of the cluster have set in the observed one.
	Retain InterpreterOperation = "Retain"
	// AggregateStatus asks for the object with one status made of those of the clusters.
	AggregateStatus InterpreterOperation = "AggregateStatus"
	// InterpretDependency asks for the objects that must go where an object goes.
	InterpretDependency InterpreterOperation = "InterpretDependency"
	// InterpretStatus asks for the status of an object.
	InterpretStatus InterpreterOperation = "InterpretStatus"
	// InterpretHealth asks whether an object is healthy.
	InterpretHealth InterpreterOperation = "InterpretHealth"
	// Prune asks for the object as it is packed for a cluster.
	Prune InterpreterOperation = "Prune"
	// InterpretAll stands for all operations in a rule. No request has it.
	InterpretAll InterpreterOperation = "*"
)

// operations are the requests that there are, by their names in both protocols.
var operations = []struct {
	interpret InterpreterOperation
	explore   OperationType // empty where there is none
}{
	{InterpretReplica, ExploreReplica},
	{InterpretComponent, ""},
	{ReviseReplica, ExploreReplicaRevising},
	{Retain, ExploreRetaining},
	{AggregateStatus, ExploreStatusAggregating},
	{InterpretDependency, ExploreDependencies},
	{InterpretStatus, ExploreStatus},
	{InterpretHealth, ExploreHealthy},
	{Prune, ExplorePacking},
}

// InterpreterOperations returns the operations that a request can have, without [InterpretAll].
func InterpreterOperations() []InterpreterOperation {
	out := make([]InterpreterOperation, len(operations))
	for i, o := range operations {
		out[i] = o.interpret
	}
	return out
}

// Interpreter returns the operation's name in the Interpret protocol; false where it is not one of the constants.
func (o OperationType) Interpreter() (InterpreterOperation, bool) {
	if o == ExploreAll {
		return InterpretAll, true
	}
	for _, known := range operations {
		if known.explore == o && o != "" {
			return known.interpret, true
		}
	}
	return "", false
}

// Explore returns the operation's name in the Explore protocol; false where there is none, as for [InterpretComponent].
func (o InterpreterOperation) Explore() (OperationType, bool) {
	if o == InterpretAll {
		return ExploreAll, true
	}
	for _, known := range operations {
		if known.interpret == o {
			return known.explore, known.explore != ""
		}
	}
	return "", false
}

// Known reports whether a request can have this operation. [InterpretAll] is for rules only.
func (o InterpreterOperation) Known() bool {
	for _, known := range operations {
		if known.interpret == o {
			return true
		}
	}
	return false
}
