// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppliedWork records on a managed cluster what a work of a hub has put there. The objects have an owner reference to it,
// so that when it is deleted they go too, even when no agent is left. It is cluster scoped, and its name is unique for
// the work.
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

	// Spec says which work of the hub this is for. It never changes.
	// +required
	Spec AppliedWorkSpec `json:"spec"`
	// Status is what is on the cluster because of the work.
	// +optional
	Status AppliedWorkStatus `json:"status,omitempty"`
}

// AppliedWorkSpec names the work on the hub.
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

// AppliedWorkStatus is what is on the cluster because of the work. All but AppliedResources is for people to look at:
// nothing depends on it, because a CRD that does not know it prunes it.
type AppliedWorkStatus struct {
	// AppliedResources is the inventory: the objects that were, or are about to be, applied for the work.
	// +optional
	AppliedResources []AppliedResourceMeta `json:"appliedResources,omitempty"`
	// Conditions are Applied, Pruned, Terminating and Evicting.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status was written for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// EvictionStartTime is when the eviction of the work began, if it has.
	// +optional
	EvictionStartTime *metav1.Time `json:"evictionStartTime,omitempty"`
	// ResourceCount is the number of entries of the inventory, with those of its shards.
	// +optional
	ResourceCount int32 `json:"resourceCount,omitempty"`
	// Shards is how many further AppliedWorks hold entries that have no room in this one.
	// +optional
	Shards int32 `json:"shards,omitempty"`
}

// AppliedtWorkStatus is the name of AppliedWorkStatus in the enhancement.
//
// Deprecated: it is misspelt; use [AppliedWorkStatus].
type AppliedtWorkStatus = AppliedWorkStatus

// AppliedResourceMeta is an entry of the inventory.
type AppliedResourceMeta struct {
	// ResourceIdentifier says which object it is.
	ResourceIdentifier `json:",inline"`

	// UID is the UID of the object when it was last applied. Empty means that it was about to be applied and nothing is
	// known of the outcome.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Adopted reports that the object existed before it was applied for the work, and that no other AppliedWork owned it.
	// By default such an object is not deleted with the work.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
}

// ResourceIdentifier is what it takes to reach an object.
type ResourceIdentifier struct {
	// Ordinal is the place of the manifest in the work. It is no part of the object's identity.
	// +required
	Ordinal int `json:"ordinal"`
	// Group is empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Version is the one that was applied. It is no part of the object's identity.
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
