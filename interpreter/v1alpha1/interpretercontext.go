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
	// UID identifies request and response, for example in the logs of both sides. The response repeats it.
	UID types.UID `json:"uid"`
	// Kind is the kind of Object.
	Kind metav1.GroupVersionKind `json:"kind"`
	// Name is the name of Object.
	Name string `json:"name"`
	// Namespace is the namespace of Object, if it has one.
	Namespace string `json:"namespace,omitempty"`
	// Operation is what is asked.
	Operation InterpreterOperation `json:"operation"`
	// Object is the object that is asked about.
	Object runtime.RawExtension `json:"object,omitempty"`
	// ObservedObject is the object on the cluster, for Retain.
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`
	// DesiredReplicas is the number of replicas to set, for ReviseReplica. Karmada sends 0 with other operations too.
	DesiredReplicas *int32 `json:"replicas,omitempty"`
	// AggregatedStatus are the statuses to aggregate, for AggregateStatus.
	AggregatedStatus []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceInterpreterResponse is the answer of a webhook in the Interpret protocol.
type ResourceInterpreterResponse struct {
	// UID is that of the request.
	UID types.UID `json:"uid"`
	// Successful is whether the request could be answered. Where it is false, Status says why, and all else is ignored.
	Successful bool `json:"successful"`
	// Status says why a request was not successful. It is not the status of the object: that is RawStatus.
	Status *RequestStatus `json:"status,omitempty"`
	// Patch is what to change of Object, for the operations that ask for an object, in the form that PatchType says.
	// Without patch and type, nothing is to be changed.
	Patch []byte `json:"patch,omitempty"`
	// PatchType is the form of Patch. JSONPatch is the only one there is.
	PatchType *PatchType `json:"patchType,omitempty"`
	// ReplicaRequirements is what each replica requires, for InterpretReplica. It may be absent.
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`
	// Replicas is the number of replicas that the object has. Required for InterpretReplica.
	Replicas *int32 `json:"replicas,omitempty"`
	// Components are the parts of an object with several pod templates, for InterpretComponent.
	Components []Component `json:"components,omitempty"`
	// Dependencies are the objects that must go where the object goes, for InterpretDependency.
	Dependencies []DependentObjectReference `json:"dependencies,omitempty"`
	// RawStatus is the status of the object. Required for InterpretStatus.
	RawStatus *runtime.RawExtension `json:"rawStatus,omitempty"`
	// Healthy is whether the object is healthy. Required for InterpretHealth.
	Healthy *bool `json:"healthy,omitempty"`
}

// RequestStatus is the reason why a request was not successful.
type RequestStatus struct {
	// Message is for people.
	Message string `json:"message,omitempty"`
	// Code is like the status of an HTTP response.
	Code int32 `json:"code,omitempty"`
}
