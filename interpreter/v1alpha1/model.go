// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PatchType is the format of a patch.
type PatchType string

// PatchTypeJSONPatch is a JSON Patch (RFC 6902).
const PatchTypeJSONPatch PatchType = "JSONPatch"

// ReplicaRequirements are the requirements of each replica of an object.
type ReplicaRequirements struct {
	// NodeClaim selects the nodes for the pods.
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`
	// ResourceRequest is the sum of the requests of a pod.
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`
	// Namespace is the namespace of the pods. It determines their quota.
	Namespace string `json:"namespace,omitempty"`
	// PriorityClassName is the priority class of the pods.
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// NodeClaim selects the nodes for a pod.
type NodeClaim struct {
	// HardNodeAffinity is the node affinity that scheduling requires.
	HardNodeAffinity *corev1.NodeSelector `json:"hardNodeAffinity,omitempty"`
	// NodeSelector are the labels that a node must have.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are the tolerations of the pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Component is one part of an object with several pod templates.
type Component struct {
	// Name is unique among the components of an object.
	Name string `json:"name"`
	// Replicas is the number of replicas that the component has.
	Replicas int32 `json:"replicas"`
	// ReplicaRequirements are the requirements of each replica.
	ReplicaRequirements *ComponentReplicaRequirements `json:"replicaRequirements,omitempty"`
}

// ComponentReplicaRequirements are the requirements of each replica of a component.
type ComponentReplicaRequirements struct {
	// NodeClaim selects the nodes for the pods.
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`
	// ResourceRequest is the sum of the requests of a pod.
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`
	// PriorityClassName is the priority class of the pods.
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// ResourceHealth is the health of an object on a cluster.
type ResourceHealth string

// The values of [ResourceHealth].
const (
	ResourceHealthy   ResourceHealth = "Healthy"
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	ResourceUnknown   ResourceHealth = "Unknown"
)

// AggregatedStatusItem is the status of an object on one cluster.
type AggregatedStatusItem struct {
	// ClusterName is the cluster.
	ClusterName string `json:"clusterName"`
	// Status is the answer to InterpretStatus on the cluster, or nil if it is unknown.
	Status *runtime.RawExtension `json:"status,omitempty"`
	// Applied is whether the object was applied on the cluster.
	Applied bool `json:"applied,omitempty"`
	// AppliedMessage is the reason why the object was not applied.
	AppliedMessage string `json:"appliedMessage,omitempty"`
	// Health is the health of the object on the cluster. The proposal has no such field.
	Health ResourceHealth `json:"health,omitempty"`
}

// DependentObjectReference identifies an object, or objects with a selector, on which another
// object depends.
type DependentObjectReference struct {
	// APIVersion is the API version of the dependency.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the dependency.
	Kind string `json:"kind"`
	// Namespace is the namespace of the dependency. It is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the dependency. Exactly one of Name and LabelSelector is set.
	Name string `json:"name,omitempty"`
	// LabelSelector selects dependencies by their labels. The Explore protocol does not have it.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
