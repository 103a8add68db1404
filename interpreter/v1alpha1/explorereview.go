// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ExploreReview is a request of the Explore protocol or the answer to one.
// +kubebuilder:object:root=true
// +kubebuilder:skip
type ExploreReview struct {
	metav1.TypeMeta `json:",inline"`

	// Request is set by the caller.
	// +optional
	Request *ExploreRequest `json:"request,omitempty"`
	// Response is set by the webhook.
	// +optional
	Response *ExploreResponse `json:"response,omitempty"`
}

// ExploreRequest is a request to a webhook in the Explore protocol.
type ExploreRequest struct {
	// UID identifies the request and its response, for example in logs.
	UID types.UID `json:"uid"`
	// Kind is the kind of Object.
	Kind metav1.GroupVersionKind `json:"kind"`
	// Name is the name of Object.
	Name string `json:"name"`
	// Namespace is the namespace of Object, if it has one.
	Namespace string `json:"namespace,omitempty"`
	// Operation is the requested operation.
	Operation OperationType `json:"operation"`
	// Object is the object of the request.
	Object runtime.RawExtension `json:"object,omitempty"`
	// ObservedObject is the object on the cluster, for ExploreRetaining. It is an extension of the
	// proposal, which has no field for this object.
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`
	// DesiredReplicas is the number of replicas to set, for ExploreReplicaRevising.
	DesiredReplicas *int32 `json:"replicas,omitempty"`
	// AggregatedStatus are the statuses to aggregate, for ExploreStatusAggregating.
	AggregatedStatus []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ExploreResponse is the answer of a webhook in the Explore protocol. It has no field for a
// failure: a failed request is answered with an HTTP status other than 2xx.
type ExploreResponse struct {
	// UID is the UID of the request.
	UID types.UID `json:"uid"`
	// Patch has the changes of Object, for operations that return an object. Its format is PatchType.
	// Without patch and type, the object is unchanged.
	Patch []byte `json:"patch,omitempty"`
	// PatchType is the format of Patch. Only JSONPatch is supported.
	PatchType *PatchType `json:"patchType,omitempty"`
	// ReplicaRequirements are the requirements of each replica, for ExploreReplica. Optional.
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`
	// Replicas is the number of replicas of the object. Required for ExploreReplica.
	Replicas *int32 `json:"replicas,omitempty"`
	// Dependencies are the objects that must be sent to each cluster of the object, for
	// ExploreDependencies.
	Dependencies []DependentObjectReference `json:"dependencies,omitempty"`
	// Status is the status of the object. Required for ExploreStatus.
	Status *runtime.RawExtension `json:"status,omitempty"`
	// Healthy is whether the object is healthy. Required for ExploreHealthy.
	Healthy *bool `json:"healthy,omitempty"`
}
