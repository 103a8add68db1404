// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceInterpreterContext is a request of the Interpret protocol or the answer to one.
// +kubebuilder:object:root=true
// +kubebuilder:skip
type ResourceInterpreterContext struct {
	metav1.TypeMeta `json:",inline"`

	// Request is set by the caller.
	// +optional
	Request *ResourceInterpreterRequest `json:"request,omitempty"`
	// Response is set by the webhook.
	// +optional
	Response *ResourceInterpreterResponse `json:"response,omitempty"`
}

// ResourceInterpreterRequest is a request to a webhook in the Interpret protocol.
type ResourceInterpreterRequest struct {
	// UID identifies the request and its response, for example in logs.
	UID types.UID `json:"uid"`
	// Kind is the kind of Object.
	Kind metav1.GroupVersionKind `json:"kind"`
	// Name is the name of Object.
	Name string `json:"name"`
	// Namespace is the namespace of Object, if it has one.
	Namespace string `json:"namespace,omitempty"`
	// Operation is the requested operation.
	Operation InterpreterOperation `json:"operation"`
	// Object is the object of the request.
	Object runtime.RawExtension `json:"object,omitempty"`
	// ObservedObject is the object on the cluster, for Retain.
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`
	// DesiredReplicas is the number of replicas to set, for ReviseReplica. Karmada sends 0 with other
	// operations too.
	DesiredReplicas *int32 `json:"replicas,omitempty"`
	// AggregatedStatus are the statuses to aggregate, for AggregateStatus.
	AggregatedStatus []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceInterpreterResponse is the answer of a webhook in the Interpret protocol.
type ResourceInterpreterResponse struct {
	// UID is the UID of the request.
	UID types.UID `json:"uid"`
	// Successful is whether the request was answered. If it is false, Status has the reason, and all
	// other fields are ignored.
	Successful bool `json:"successful"`
	// Status is the reason why a request failed. RawStatus has the status of the object.
	Status *RequestStatus `json:"status,omitempty"`
	// Patch has the changes of Object, for operations that return an object. Its format is PatchType.
	// Without patch and type, the object is unchanged.
	Patch []byte `json:"patch,omitempty"`
	// PatchType is the format of Patch. Only JSONPatch is supported.
	PatchType *PatchType `json:"patchType,omitempty"`
	// ReplicaRequirements are the requirements of each replica, for InterpretReplica. Optional.
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`
	// Replicas is the number of replicas of the object. Required for InterpretReplica.
	Replicas *int32 `json:"replicas,omitempty"`
	// Components are the parts of an object with several pod templates, for InterpretComponent.
	Components []Component `json:"components,omitempty"`
	// Dependencies are the objects that must be sent to each cluster of the object, for
	// InterpretDependency.
	Dependencies []DependentObjectReference `json:"dependencies,omitempty"`
	// RawStatus is the status of the object. Required for InterpretStatus.
	RawStatus *runtime.RawExtension `json:"rawStatus,omitempty"`
	// Healthy is whether the object is healthy. Required for InterpretHealth.
	Healthy *bool `json:"healthy,omitempty"`
}

// RequestStatus is the reason why a request failed.
type RequestStatus struct {
	// Message is the reason as text.
	Message string `json:"message,omitempty"`
	// Code is like the status of an HTTP response.
	Code int32 `json:"code,omitempty"`
}
