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

	// Webhooks are the webhooks, what they are asked and about which resources.
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

	// ClientConfig says how to reach the webhook: exactly one of a URL and a service, and the CAs to trust.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="exactly one of url and service is required"
	ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`

	// Rules say which operations on which resources the webhook is asked. One that fits is enough; without rules, it is
	// never asked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rules []RuleWithOperations `json:"rules,omitempty"`

	// FailurePolicy says what a failed call means: Fail (the default) fails what needed the answer, Ignore goes on as
	// if there were no webhook.
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

	// ExploreReviewVersions are the versions of ExploreReview that the webhook accepts, the preferred one first. The
	// first that the caller knows is used; one of them must be known.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.exists(v, v == 'v1alpha1')",message="must include one of v1alpha1"
	ExploreReviewVersions []string `json:"exploreReviewVersions"`
}

// RuleWithOperations says which operations on which resources: each combination of its lists.
type RuleWithOperations struct {
	// Operations are the operations. "*" stands for all and must be alone.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="'*' must be alone"
	Operations []OperationType `json:"operations"`

	// Rule has the resources: apiGroups, apiVersions, resources and scope.
	admissionregistrationv1.Rule `json:",inline"`
}
