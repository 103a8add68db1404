// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppliedWork records the objects that a work of a hub has on a managed cluster. The objects have an
// owner reference to it, so Kubernetes deletes them with it, also when no agent runs any more. An
// AppliedWork is cluster scoped, and its name is unique for the work.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="applyset.kubernetes.io/is-parent-type=true"
// +kubebuilder:printcolumn:name="Work",type=string,JSONPath=`.spec.workName`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.workNamespace`
// +kubebuilder:printcolumn:name="Resources",type=integer,JSONPath=`.status.resourceCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppliedWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec identifies the work of the hub. It is immutable.
	// +required
	Spec AppliedWorkSpec `json:"spec"`
	// Status is the inventory of the work on the cluster.
	// +optional
	Status AppliedWorkStatus `json:"status,omitempty"`
}

// AppliedWorkSpec identifies the work on the hub.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: another work needs an AppliedWork of its own"
type AppliedWorkSpec struct {
	// WorkName is the name of the work on the hub.
	// +required
	WorkName string `json:"workName"`
	// WorkNamespace is the namespace of the work on the hub.
	// +required
	WorkNamespace string `json:"workNamespace"`
}

// AppliedWorkStatus is the inventory of a work on the cluster. All fields except AppliedResources are
// only for display, because an older CRD prunes them.
type AppliedWorkStatus struct {
	// AppliedResources is the inventory: the objects that were applied for the work, or are about to be
	// applied.
	// +optional
	AppliedResources []AppliedResourceMeta `json:"appliedResources,omitempty"`
	// Conditions are Applied, Pruned, Terminating and Evicting.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the AppliedWork at the last write of the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// EvictionStartTime is the start of the grace period of an eviction.
	// +optional
	EvictionStartTime *metav1.Time `json:"evictionStartTime,omitempty"`
	// ResourceCount is the number of entries of the inventory, including those of its shards.
	// +optional
	ResourceCount int32 `json:"resourceCount,omitempty"`
	// Shards is the number of further AppliedWorks with entries that have no room in this one.
	// +optional
	Shards int32 `json:"shards,omitempty"`
}

// AppliedtWorkStatus is the name of AppliedWorkStatus in the work-api proposal.
//
// Deprecated: it is misspelt; use [AppliedWorkStatus].
type AppliedtWorkStatus = AppliedWorkStatus

// AppliedResourceMeta is an entry of the inventory.
type AppliedResourceMeta struct {
	// ResourceIdentifier identifies the object.
	ResourceIdentifier `json:",inline"`

	// UID is the UID of the object when it was last applied. Empty means that the object was about to
	// be applied, and that the outcome is unknown.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Adopted reports that the object existed before it was applied for the work, and that no other
	// AppliedWork owned it. By default such an object is not deleted with the work.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
}

// ResourceIdentifier identifies an object and its resource.
type ResourceIdentifier struct {
	// Ordinal is the position of the manifest in the work. It is not part of the object's identity.
	// +required
	Ordinal int `json:"ordinal"`
	// Group is empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Version is the applied version. It is not part of the object's identity.
	// +optional
	Version string `json:"version,omitempty"`
	// Kind is the object's kind.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Resource is the plural name of the kind, as in the path of requests.
	// +optional
	Resource string `json:"resource,omitempty"`
	// Namespace is empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the object's name.
	// +optional
	Name string `json:"name,omitempty"`
}

// AppliedWorkList is a list of AppliedWorks.
//
// +kubebuilder:object:root=true
type AppliedWorkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the AppliedWorks.
	// +listType=set
	Items []AppliedWork `json:"items"`
}
