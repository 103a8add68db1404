// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceExploringWebhookConfiguration registers webhooks of the Explore protocol.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceexploringwebhookconfigurations,scope=Cluster,categories=karmada-io
// +kubebuilder:storageversion
type ResourceExploringWebhookConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Webhooks are the webhooks, each with the operations and resources for which it is called.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Webhooks []ResourceExploringWebhook `json:"webhooks"`
}

// ResourceExploringWebhookConfigurationList is a list of [ResourceExploringWebhookConfiguration].
// +kubebuilder:object:root=true
type ResourceExploringWebhookConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceExploringWebhookConfiguration `json:"items"`
}

// ResourceExploringWebhook is one webhook of the Explore protocol.
type ResourceExploringWebhook struct {
	// Name is the qualified name of the webhook: a domain of at least three parts.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$`
	Name string `json:"name"`

	// ClientConfig has the address of the webhook, either a URL or a service, and the CAs to trust.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="exactly one of url and service is required"
	ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`

	// Rules select the operations and resources for which the webhook is called. One matching rule is
	// enough. Without rules, the webhook is never called.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []RuleWithOperations `json:"rules,omitempty"`

	// FailurePolicy is the effect of a failed call. With Fail, the default, the operation that needs
	// the answer fails. With Ignore, the caller continues as if no webhook matched.
	// +optional
	// +kubebuilder:default=Fail
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`

	// TimeoutSeconds is how long a call may take, 1 to 30 seconds. Defaults to 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// ExploreReviewVersions are the versions of ExploreReview that the webhook accepts, in order of
	// preference. The caller uses the first version that it knows. The list must include v1alpha1.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.exists(v, v == 'v1alpha1')",message="must include one of v1alpha1"
	ExploreReviewVersions []string `json:"exploreReviewVersions"`
}

// RuleWithOperations matches each combination of its operations and resources.
type RuleWithOperations struct {
	// Operations are the operations that match. "*" matches all and must be the only entry.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Operations []OperationType `json:"operations"`

	// Rule selects the resources by apiGroups, apiVersions, resources and scope.
	admissionregistrationv1.Rule `json:",inline"`
}
